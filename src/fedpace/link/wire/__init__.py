"""The wire format: frames, and how numbers and positions lie in them."""
