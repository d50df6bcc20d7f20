"""Links from one client to the server."""
