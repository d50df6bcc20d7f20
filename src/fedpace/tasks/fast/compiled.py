"""numba, as this package uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

F = TypeVar("F", bound=Callable[..., Any])
Array = npt.NDArray[Any]

# Sums may be split over vector lanes and products fused with additions; inf and nan keep their meaning.
MATHS = {"reassoc", "contract", "nsz", "arcp"}
LINE_BYTES = 64  # of the processor's cache


def compiled(function: F) -> F:
    """`function` as machine code: compiled at the first call, and cached on disk where that is possible."""
    try:
        return cast(F, _compile(function, True))
    except RuntimeError:  # no directory to cache in
        return cast(F, _compile(function, False))


def inlined(function: F) -> F:
    """`function` as a part of those that call it: of every compiled function all that it calls is compiled again."""
    return cast(F, _compile(function, False, inline="always"))


def _compile(function: F, cache: bool, **options: Any) -> Any:
    return numba.njit(function, cache=cache, fastmath=MATHS, error_model="numpy", nogil=True, **options)


def aligned(size: int, dtype: npt.DTypeLike) -> Array:
    """An uninitialised vector that begins with a cache line: loads that straddle two cost twice as much."""
    memory = np.empty(size * np.dtype(dtype).itemsize + LINE_BYTES, np.uint8)
    skip = -memory.ctypes.data % LINE_BYTES
    return memory[skip : skip + size * np.dtype(dtype).itemsize].view(dtype)
