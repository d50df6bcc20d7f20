"""One client's way to the server."""
