"""Many runs side by side: comparisons, sweeps, and the saved ones."""

STOP_ABOVE = 100.0  # times its minimum, a loss is hopeless
