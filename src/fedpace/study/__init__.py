"""Many runs of one algorithm: sweeps and searches."""
