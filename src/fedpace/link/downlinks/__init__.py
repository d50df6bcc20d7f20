"""Links from the server to all clients."""
