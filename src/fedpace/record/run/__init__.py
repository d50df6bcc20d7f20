"""A run and its history."""
