"""A study, or a client's machine, looked over before a run: one diagnosis per part, each with what to do."""
