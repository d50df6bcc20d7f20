"""Codecs: a vector to one frame and back, without state."""
