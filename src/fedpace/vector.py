"""One flat vector everywhere outside local training, and the layout of the tensors in it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedpace.errors import NotFiniteError

Vector = npt.NDArray[np.floating]
Spans = tuple[tuple[int, int], ...]  # parts of a flat vector: first coordinate, and one past the last


@dataclass(frozen=True, slots=True)
class Layout:
    """Names, shapes and offsets of the tensors that lie one after another in a flat vector."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, shapes: Mapping[str, Iterable[int]]) -> Layout:
        return cls(tuple(shapes), tuple(tuple(shape) for shape in shapes.values()))

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        return sum(self.sizes)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each tensor begins, and one past the end of the last."""
        ends = [0]
        for size in self.sizes:
            ends.append(ends[-1] + size)
        return tuple(ends)

    def split(self, v: Vector) -> dict[str, Vector]:
        """The named tensors as views of `v`."""
        at = self.offsets
        parts = zip(self.names, self.shapes, at, at[1:], strict=False)
        return {name: v[low:high].reshape(shape) for name, shape, low, high in parts}


def settle(rule: Any) -> None:
    """Give a frozen dataclass Python's own numbers and tuples.

    A numpy scalar among its fields would widen float32 vectors, and a list would not hash.
    """
    for field in fields(rule):
        object.__setattr__(rule, field.name, python_value(getattr(rule, field.name)))


def python_value(value: Any) -> Any:
    """Python's own numbers and tuples in the place of numpy's and lists."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    return tuple(python_value(entry) for entry in value) if isinstance(value, (list, tuple)) else value


def freeze(v: Vector) -> Vector:
    """Make `v` read-only, so that writing to a shared vector raises."""
    v.flags.writeable = False
    return v


def require_finite(*vectors: Vector) -> None:
    """Raise NotFiniteError unless every entry of all of them is finite."""
    if not all(map(is_finite, vectors)):
        raise NotFiniteError("the next model or its state is not finite")


def all_finite(value: Any) -> bool:
    """Whether the arrays in a state are finite: in dataclasses, tuples and lists, not in tables of clients."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or is_finite(value)
    if isinstance(value, (tuple, list)):
        return all(map(all_finite, value))
    return not is_dataclass(value) or all(all_finite(getattr(value, f.name)) for f in fields(value))


def shortened(v: Vector, bound: float) -> Vector:
    """v, scaled down to Euclidean length `bound` if it is longer; the same object if it is not."""
    length = norm(v)
    return v if length <= bound else v * (bound / length)


def norm(v: Vector) -> float:
    """The Euclidean length, also where the squares overflow although the entries do not."""
    length = math.sqrt(np.vdot(v, v))  # unlike np.linalg.norm, it does not warn of an overflow
    if math.isfinite(length):
        return length
    peak = float(np.abs(v).max())
    return peak * float(np.linalg.norm(v / peak))


def model_sha256(x: Vector) -> str:
    """Of the flat vector's little-endian bytes."""
    return hashlib.sha256(x.astype(x.dtype.newbyteorder("<"), copy=False).tobytes()).hexdigest()


def is_finite(v: Vector) -> bool:
    """Whether every entry is finite: one pass, no temporary mask."""
    # unlike np.dot, np.vdot does not warn of an overflow, and then the second look decides
    return math.isfinite(np.vdot(v, v)) or bool(np.isfinite(v).all())
