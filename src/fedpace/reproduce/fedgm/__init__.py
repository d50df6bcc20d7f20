"""FedGM: its family, large server rates, stages, and autonomous clients."""
