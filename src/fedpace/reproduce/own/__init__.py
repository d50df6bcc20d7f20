"""Studies of our own: all methods combined, and aggregation under attack."""
