"""FedNova: exact limits on quadratics, and learning tasks with unequal local work."""
