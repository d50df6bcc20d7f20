"""A deployment predicted: devices fitted from a run's journal, and the simulation that they make."""
