"""Bidirectional compression: the paper's methods at equal bytes, and the study behind the defaults of two_way."""
