"""One cached vector per client heard from: as it is, packed to a few bits, or in a memory-mapped file."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from fedpace.link.pack import Bytes
from fedpace.link.quantise import dequantise, quantise
from fedpace.vector import Vector


class Rows(Protocol):
    """Rows by client. A client without a row counts as zero."""

    def get(self, client: int) -> Vector | None: ...

    def put(self, client: int, v: Vector, rng: np.random.Generator | None) -> Vector:
        """Store `v`; what `get` returns from now on."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory the rows take."""
        ...


@dataclass(slots=True)
class WholeRows:
    """Full precision."""

    rows: dict[int, Vector] = field(default_factory=dict)

    def get(self, client: int) -> Vector | None:
        return self.rows.get(client)

    def put(self, client: int, v: Vector, rng: np.random.Generator | None) -> Vector:
        self.rows[client] = v
        return v

    @property
    def nbytes(self) -> int:
        return sum(row.nbytes for row in self.rows.values())


@dataclass(frozen=True, slots=True)
class Packed:
    """A quantised vector: codes of a few bits one after another, one scale per bucket."""

    codes: Bytes
    scales: Vector
    size: int

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.scales.nbytes


@dataclass(slots=True)
class PackedRows:
    """`bits` per entry, really packed; rounded at random once, when stored, and never again."""

    bits: int
    rows: dict[int, Packed] = field(default_factory=dict)

    def get(self, client: int) -> Vector | None:
        row = self.rows.get(client)
        return None if row is None else dequantise(row.codes, row.scales, self.bits, row.size)

    def put(self, client: int, v: Vector, rng: np.random.Generator | None) -> Vector:
        codes, scales = quantise(v, self.bits, rng)
        self.rows[client] = Packed(codes, scales, v.size)
        return dequantise(codes, scales, self.bits, v.size)

    @property
    def nbytes(self) -> int:
        return sum(row.nbytes for row in self.rows.values())


@dataclass(slots=True)
class SpilledRows:
    """Full precision in a nameless file in `folder`; memory holds only what the system keeps of it."""

    folder: str | os.PathLike[str]
    slots: dict[int, int] = field(default_factory=dict)  # client -> row of the file
    _file: Any = None
    _shape: Vector | None = None  # size and type of every row, as an example

    def get(self, client: int) -> Vector | None:
        at = self.slots.get(client)
        return None if at is None else np.array(self._row(at))

    def put(self, client: int, v: Vector, rng: np.random.Generator | None) -> Vector:
        if self._file is None:
            os.makedirs(self.folder, exist_ok=True)
            self._shape = np.empty_like(v)
            # the system removes the file with the last handle, whatever happens to us
            self._file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115
        self._row(self.slots.setdefault(client, len(self.slots)))[:] = v
        return v

    @property
    def nbytes(self) -> int:
        return 0

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def _row(self, at: int) -> Vector:
        assert self._shape is not None
        row = self._shape
        return np.memmap(self._file, row.dtype, "r+", offset=at * row.nbytes, shape=row.shape)
