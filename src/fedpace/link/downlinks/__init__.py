"""The server's way to all clients."""
