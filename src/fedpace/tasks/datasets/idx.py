"""The idx format of MNIST: two zero bytes, a type, the number of axes, their lengths, the values."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

import numpy as np

from fedpace.errors import ConfigError
from fedpace.tasks.datasets import npz
from fedpace.tasks.datasets.archive import Files
from fedpace.tasks.datasets.data import Array, Verify

FILES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
_BYTE = 8  # the type code of uint8
MAX_AXES = 4


def to_idx(array: Array) -> bytes:
    """A uint8 array as the bytes of an idx file."""
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, _BYTE, array.ndim, *array.shape)
    return head + np.ascontiguousarray(array, dtype=np.uint8).tobytes()


def from_idx(content: bytes, what: str) -> Array:
    """The array in an idx file of bytes."""
    if len(content) < 4 or content[:3] != bytes((0, 0, _BYTE)):
        raise ConfigError(f"{what} must be an idx file of bytes; it starts with {content[:4].hex()!r}")
    axes = content[3]
    if not 1 <= axes <= MAX_AXES:
        raise ConfigError(f"{what} must have 1 to {MAX_AXES} axes; got {axes}")
    start = 4 + 4 * axes
    shape = struct.unpack(f">{axes}I", content[4:start].ljust(4 * axes, b"\0"))
    size = math.prod(shape)
    if len(content) - start != size or size == 0:
        raise ConfigError(f"{what} must hold {size or 'some'} values; got {max(0, len(content) - start)}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def decode(files: Files, name: str, verify: Verify) -> Mapping[str, Array] | None:
    """The arrays of an MNIST-like data set: from four idx files, or else from an .npz."""
    names = {part: _present(files, known) for part, known in FILES.items()}
    if not all(names.values()):
        return _decode_npz(files, name, verify)
    arrays = {}
    for part, file in names.items():
        content = files[file]
        verify(FILES[part], content)
        arrays[part] = from_idx(content, file)
    return arrays


def _decode_npz(files: Files, name: str, verify: Verify) -> Mapping[str, Array] | None:
    arrays = npz.decode(files, name)
    for part, array in (arrays or {}).items():
        verify(FILES[part], to_idx(array))
    return arrays


def _present(files: Files, name: str) -> str:
    """train-images-idx3-ubyte, or train-images.idx3-ubyte as some unpackers write it."""
    return next((file for file in (name, name.replace("-idx", ".idx")) if file in files), "")
