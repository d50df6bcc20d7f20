"""The run store, and checkpoints that a run is resumed from."""
