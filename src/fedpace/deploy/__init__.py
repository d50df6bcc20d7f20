"""The same machines on real clients: a driver by the real clock over a network."""
