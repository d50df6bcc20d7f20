"""Randomness by name: the same name gives the same numbers, in any order of calls."""

from __future__ import annotations

import numpy as np

PURPOSES = (
    "select",  # who takes part
    "work",  # how much a client computes
    "delay",  # how long it takes
    "batches",  # the order of a client's samples
    "drop",  # whether a session is lost
    "up",  # uplink codec
    "down",  # downlink codec
    "cache",  # quantised caches
    "population",  # device speeds and rates
    "partition",  # who holds which sample
    "init",  # initial model
    "data",  # synthetic data
)
_KEY = {name: number for number, name in enumerate(PURPOSES)}


def stream(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """The generator named by (seed, purpose, *key); key is usually (client, session)."""
    entropy = np.random.SeedSequence(entropy=seed, spawn_key=(_KEY[purpose], *key))
    return np.random.Generator(np.random.PCG64(entropy))
