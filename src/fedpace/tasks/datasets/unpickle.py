"""Reading a pickle without running what it says: arrays, dicts, lists, numbers and bytes only."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from fedpace.errors import ConfigError

_RECONSTRUCT: Any = np.zeros(0).__reduce__()[0]
_FROM_BUFFER: Any = np.zeros(0).__reduce_ex__(5)[0]
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy.core.numeric", "_frombuffer"): _FROM_BUFFER,
    ("numpy._core.numeric", "_frombuffer"): _FROM_BUFFER,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    # how Python 3 writes bytes at protocol 2; the codec is fixed, so that no other can be asked for
    ("_codecs", "encode"): lambda text, codec: text.encode("latin-1"),
}


class _Forbidden(pickle.UnpicklingError):
    """The pickle names something that is not data."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise _Forbidden(f"{module}.{name}")
        return _ALLOWED[module, name]


def unpickle(content: bytes, what: str) -> Any:
    """The value in a pickle that holds data and nothing else."""
    try:
        return _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except _Forbidden as error:
        raise ConfigError(f"{what} must be a pickle of plain data; it asks for {error}") from None
    except Exception as error:
        raise ConfigError(f"{what} is damaged ({type(error).__name__}: {error})") from None
