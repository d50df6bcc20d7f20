"""How one cached vector per client is stored: as it is, packed to a few bits, or on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np

from fedpace.link.codecs.quantise import dequantise, levels, quantise
from fedpace.link.wire.pack import Bytes, empty_codes, pack, unpack
from fedpace.spill import Slab
from fedpace.vector import Vector


class RowFormat(Protocol):
    """Turns a vector into the row that is stored for it, and back."""

    def store(self, v: Vector, rng: np.random.Generator | None) -> Any:
        """The row, a plain value."""
        ...

    def value(self, row: Any) -> Vector:
        """The vector of a row, the same every time."""
        ...

    def nbytes(self, row: Any) -> int:
        """Memory a row takes."""
        ...


@dataclass(frozen=True, slots=True)
class FullPrecision:
    """Full precision."""

    def store(self, v: Vector, rng: np.random.Generator | None) -> Vector:
        return v

    def value(self, row: Vector) -> Vector:
        return row

    def nbytes(self, row: Vector) -> int:
        return row.nbytes


@dataclass(frozen=True, slots=True)
class PackedRow:
    """A quantised vector: codes of a few bits one after another, one scale per bucket."""

    codes: Bytes
    scales: Vector
    size: int


@dataclass(frozen=True, slots=True)
class Packed:
    """`bits` per entry, really packed; rounded at random once, when stored, and never again."""

    bits: int

    def store(self, v: Vector, rng: np.random.Generator | None) -> PackedRow:
        codes, scales = quantise(v, self.bits, rng)
        return PackedRow(codes, scales, v.size)

    def value(self, row: PackedRow) -> Vector:
        return dequantise(row.codes, row.scales, self.bits, row.size)

    def nbytes(self, row: PackedRow) -> int:
        return row.codes.nbytes + row.scales.nbytes


@dataclass(frozen=True, slots=True)
class L2Scale:
    """`bits` per entry, scaled by the L2 norm of the whole vector: the quantiser of QSGD, which CA2FL cites.

    Alistarh et al., NeurIPS 2017, section 3.1, with s = 2^(bits-1) - 1 levels:

        Q(v)_j = ||v|| sign(v_j) floor(s |v_j| / ||v|| + u_j) / s         u_j uniform in [0, 1): unbiased

    Variance: E||Q(v) - v||^2 <= min(d / s^2, sqrt(d) / s) ||v||^2, which grows with the size d; `Packed` has a
    scale for every block and does not.
    """

    bits: int

    def store(self, v: Vector, rng: np.random.Generator | None) -> PackedRow:
        s, norm = levels(self.bits), np.linalg.norm(v)
        u = 0.5 if rng is None else rng.random(v.size)
        magnitudes = np.minimum(np.floor(np.abs(v) * (s / float(norm) if norm else 0.0) + u), s)
        codes = (np.sign(v) * magnitudes + s).astype(empty_codes(0, self.bits).dtype)
        return PackedRow(pack(codes, self.bits), np.array([norm], v.dtype), v.size)

    def value(self, row: PackedRow) -> Vector:
        s = levels(self.bits)
        codes = unpack(row.codes, self.bits, row.size).astype(np.float64) - s
        out: Vector = (codes * (float(row.scales[0]) / s)).astype(row.scales.dtype)
        return out

    def nbytes(self, row: PackedRow) -> int:
        return row.codes.nbytes + row.scales.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class SpilledRow:
    """A vector on disk."""

    folder: str
    v: Vector

    @classmethod
    def written(cls, folder: str, v: Vector) -> SpilledRow:
        return cls(folder, _slab(folder).keep(v))


@dataclass(frozen=True, slots=True)
class Spilled:
    """Full precision in nameless files in `folder`; main memory holds only the system's page cache of them."""

    folder: str | os.PathLike[str]

    def store(self, v: Vector, rng: np.random.Generator | None) -> SpilledRow:
        return SpilledRow.written(os.fspath(self.folder), v)

    def value(self, row: SpilledRow) -> Vector:
        return row.v

    def nbytes(self, row: SpilledRow) -> int:
        return 0


Row = Vector | PackedRow | SpilledRow  # as a checkpoint stores it


@cache
def _slab(folder: str) -> Slab:
    os.makedirs(folder, exist_ok=True)
    return Slab(folder)
