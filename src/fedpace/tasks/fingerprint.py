"""Arrays in a `repr` that identifies a task: in full when small, by checksum when not."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

SHOWN = 64  # entries printed in full


def sha256(*arrays: npt.NDArray[np.generic]) -> str:
    """The checksum of dtype, shape and content, the same on machines of either byte order."""
    digest = hashlib.sha256()
    for array in arrays:
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"{array.dtype.name}{list(array.shape)}".encode())
        digest.update(little.data.cast("B") if little.size else b"")
    return digest.hexdigest()


def shown(array: npt.NDArray[np.generic] | None) -> str:
    """`array` as text that differs for different arrays."""
    if array is None:
        return "None"
    if array.size <= SHOWN:
        return repr(array.tolist())
    return f"<{'x'.join(map(str, array.shape))} sha256 {sha256(array)[:16]}>"
