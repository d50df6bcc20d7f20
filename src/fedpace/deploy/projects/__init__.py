"""A study as a folder: run.toml says what is run, client.py what a machine trains."""
