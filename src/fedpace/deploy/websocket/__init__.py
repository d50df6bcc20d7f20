"""The built-in transport: chunks with credit over standing WebSocket connections that clients open."""
