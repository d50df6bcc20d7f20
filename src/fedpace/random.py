"""Randomness by name: the same name gives the same numbers, in any order of calls."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence

PURPOSES = (
    "select",  # client sampling
    "work",  # how much a client computes
    "delay",  # how long it takes
    "batches",  # the order of a client's samples
    "drop",  # whether a session is lost
    "up",  # uplink codec
    "down",  # downlink codec
    "cache",  # quantised caches
    "population",  # device speeds and rates
    "partition",  # the split of the data over clients
    "init",  # initial model
    "data",  # synthetic data
    "hostile",  # which clients attack
    "attack",  # what they send
    "audit",  # canaries
    "privacy",  # noise on sums, in simulations
)


class Named(ISeedSequence):
    """A seed that is the hash of a name: a tenth of the cost of numpy's own, and a run opens several per session."""

    def __init__(self, name: str) -> None:
        self.name = name

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> npt.NDArray[Any]:
        size = n_words * np.dtype(dtype).itemsize
        return np.frombuffer(blake2b(self.name.encode(), digest_size=size).digest(), dtype)


def stream(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """The generator named by (seed, purpose, *key); key is usually (client, session)."""
    if purpose not in PURPOSES:
        raise KeyError(purpose)
    # numpy takes any ISeedSequence; its type hints know only its own
    name: Any = Named(f"{seed} {purpose} {tuple(map(int, key))}")  # numpy's integers print otherwise
    return np.random.Generator(np.random.PCG64(name))
