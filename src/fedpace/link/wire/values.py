"""How numbers lie in a frame: fp32, fp16, bf16, fp64; by default the vector's own type.

Narrowing saturates at the type's largest finite number: an error memory then carries the rest, whereas an
infinity would lose the update.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedpace.errors import ConfigError, FrameError, require
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import NonFiniteError
from fedpace.vector import Vector, is_finite

# name -> (numpy type on the wire, header flags, unit roundoff)
_TYPES: dict[str, tuple[np.dtype[Any], int, float]] = {
    "fp32": (np.dtype("<f4"), 0, 2.0**-24),
    "fp16": (np.dtype("<f2"), wire.FP16, 2.0**-11),
    "bf16": (np.dtype("<u2"), 1 << wire.TYPE_SHIFT, 2.0**-8),
    "fp64": (np.dtype("<f8"), 2 << wire.TYPE_SHIFT, 2.0**-53),
}
_OWN = {np.dtype(np.float16): "fp16", np.dtype(np.float32): "fp32", np.dtype(np.float64): "fp64"}
_BY_FLAGS = {flags: name for name, (_, flags, _) in _TYPES.items()}
_BF16_MAX = np.uint32(0x7F7F0000).view(np.float32)


def require_type(name: str | None, what: str) -> None:
    require(name is None or name in _TYPES, what, name, f"None or one of {', '.join(_TYPES)}")


def type_name(v: Vector, wanted: str | None) -> str:
    """`wanted`, or the vector's own type."""
    if wanted is not None:
        return wanted
    own = _OWN.get(v.dtype)
    if own is None:
        raise ConfigError(f"a vector's dtype must be {' or '.join(map(str, _OWN))}; got {v.dtype}")
    return own


def exact(dtype: np.dtype[np.floating], wanted: str | None) -> bool:
    """Whether numbers of this type arrive unchanged when sent as `wanted`."""
    return wanted is None or _OWN.get(dtype) == wanted


def type_flags(name: str) -> int:
    return _TYPES[name][1]


def type_bytes(name: str) -> int:
    return _TYPES[name][0].itemsize


def roundoff(name: str | None) -> float:
    """Largest relative error of one number sent this way; None: sent exactly."""
    return 0.0 if name is None else _TYPES[name][2]


def type_of(header: wire.Header) -> str:
    return _BY_FLAGS[header.flags & (wire.FP16 | wire.TYPE_MASK)]


def sent_type(header: wire.Header, wanted: str | None) -> str:
    """The type of a frame's values, which must be the wanted one."""
    name = type_of(header)
    allowed = _OWN.values() if wanted is None else (wanted,)
    if name not in allowed:
        raise FrameError(f"{header.kind.name}: values must be {' or '.join(allowed)}; got {name}")
    return name


def to_wire(v: Vector, name: str) -> npt.NDArray[np.generic]:
    """`v` as it lies in the frame: contiguous, without a copy where the type is already right."""
    dtype = _TYPES[name][0]
    if v.dtype == dtype:
        return np.ascontiguousarray(v)
    if v.dtype.itemsize <= dtype.itemsize and name != "bf16":
        return np.ascontiguousarray(v, dtype)
    finite(v, "a vector to send")
    return _to_bf16(v) if name == "bf16" else _narrow(v, dtype)


def from_wire(payload: bytes, name: str, count: int, offset: int) -> Vector:
    """`count` numbers at `offset`: a read-only view where numpy has the type, else float32."""
    dtype = _TYPES[name][0]
    raw: Vector = np.frombuffer(payload, dtype, count, offset)
    if name == "bf16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return raw.astype(np.float32) if name == "fp16" else raw


def _narrow(v: Vector, dtype: np.dtype[np.floating]) -> Vector:
    top = np.finfo(dtype).max
    return np.clip(v, -top, top).astype(dtype)


def _to_bf16(v: Vector) -> npt.NDArray[np.uint16]:
    """Round to nearest, ties to even: add half a unit and the last kept bit, drop the low half."""
    bits = np.clip(v, -_BF16_MAX, _BF16_MAX).astype(np.float32).view(np.uint32)
    half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return ((bits + half) >> np.uint32(16)).astype("<u2")


def finite(v: Vector, whose: str) -> Vector:
    """`v`, or NonFiniteError."""
    if not is_finite(v):
        raise NonFiniteError(f"{whose}: a value is not finite")
    return v


def add(held: Vector, change: Vector) -> Vector:
    """held + change in the type of `held`, which may be empty for zero; NonFiniteError if a sum is out of its range."""
    with np.errstate(over="ignore"):
        total = held + change if held.size else change
        return finite(total.astype(held.dtype, copy=False), "a sum of received values")


def spent_sum(held: Vector, change: Vector) -> Vector:
    """`add`, written over `change`, which is the caller's to spend: one long vector less."""
    if not _is_room(change, held):
        return add(held, change)
    with np.errstate(over="ignore"):
        return finite(np.add(held, change, out=change), "a sum of received values")


def spent_difference(p: Vector, used: Vector) -> Vector:
    """p - used in the type of `p`, written over `used`, which is the caller's to spend."""
    out = used if _is_room(used, p) else None
    return np.subtract(p, used, out=out).astype(p.dtype, copy=False)


def _is_room(v: Vector, like: Vector) -> bool:
    return v.flags.writeable and v.dtype == like.dtype and v.size == like.size


def survives(v: Vector, name: str) -> npt.NDArray[np.bool_]:
    """Which entries are still different from zero when sent as this type."""
    sent = v if v.dtype == _TYPES[name][0] else as_sent(v, name)
    kept: npt.NDArray[np.bool_] = sent != 0
    return kept


def as_sent(v: Vector, name: str) -> Vector:
    """The vector that the receiver reads."""
    return from_wire(to_wire(v, name).tobytes(), name, v.size, 0)


def scale(frame: bytes, name: str, offset: int, whose: str) -> np.floating:
    """One finite number >= 0."""
    number: np.floating = finite(from_wire(frame, name, 1, offset), whose)[0]
    if np.signbit(number):
        raise FrameError(f"{whose}: a scale is negative")
    return number
