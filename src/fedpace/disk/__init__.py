"""The bottom of everything that is kept: files that are whole or absent, locks, and where they lie."""
