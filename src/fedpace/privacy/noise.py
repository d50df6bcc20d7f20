"""Standard normal vectors by name: the same name gives the same numbers, so a recovered run draws the same noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np

from fedpace.errors import require
from fedpace.random import stream
from fedpace.vector import Vector

BLOCK = 2**20  # numbers made at a time
KEY_BYTES = 32


class NoiseSource(Protocol):
    """`name` says what the numbers are for: (kind, step), or (kind, tree, level, index)."""

    def normal(self, size: int, *name: int) -> Vector:
        """`size` independent standard normal numbers, as float64."""
        ...


@dataclass(frozen=True, slots=True)
class SeededNoise:
    """For simulations: from the run's own streams. Whoever knows the seed can remove it."""

    seed: int
    before: int = 0  # uses by the run that this one continues: it may have the same seed

    def normal(self, size: int, *name: int) -> Vector:
        whole = (*name, self.before) if self.before else name
        return stream(self.seed, "privacy", *whole).standard_normal(size)


@dataclass(frozen=True, slots=True)
class KeyedNoise:
    """For deployments: ChaCha20 under a key of 256 bits that the operating system gives once per run.

    Each name has a nonce of its own, so that no two draws share a piece of the key stream. 53 bits of it make a number
    in (0, 1), and the inverse of the normal distribution function a normal one. Whoever holds the key can remove the
    noise.
    """

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        fits = isinstance(self.key, bytes) and len(self.key) == KEY_BYTES
        got = f"{len(self.key)} bytes" if isinstance(self.key, bytes) else type(self.key).__name__
        require(fits, "KeyedNoise.key", got, f"{KEY_BYTES} bytes")  # never shown

    def normal(self, size: int, *name: int) -> Vector:
        from scipy.special import ndtri

        draw = self._key_stream(name)
        whole = np.empty(size)
        for low in range(0, size, BLOCK):
            part = whole[low : low + BLOCK]
            bits = np.frombuffer(draw.update(bytes(8 * part.size)), "<u8") >> np.uint64(11)
            part[:] = ndtri((bits + 0.5) / 2**53)
        return whole

    def _key_stream(self, name: tuple[int, ...]) -> Any:
        try:
            from cryptography.hazmat.primitives.ciphers import Cipher
            from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
        except ImportError:
            raise ImportError("KeyedNoise needs a package: pip install 'fedpace[deploy]'") from None
        nonce = blake2b(repr(tuple(map(int, name))).encode(), digest_size=12).digest()
        return Cipher(ChaCha20(self.key, bytes(4) + nonce), mode=None).encryptor()
