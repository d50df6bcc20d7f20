"""Codecs: a vector as one frame, and back. They remember nothing."""
