"""Arrays in one .npz with the keys x_train, y_train, x_test, y_test."""

from __future__ import annotations

import io

import numpy as np

from fedpace.errors import ConfigError
from fedpace.tasks.datasets.archive import BROKEN, Files
from fedpace.tasks.datasets.data import PARTS, Array


def decode(files: Files, name: str) -> dict[str, Array] | None:
    """The four arrays of the .npz for data set `name`, or of the only .npz there is; None if there is none."""
    file = _chosen([file for file in files if file.endswith(".npz")], name, alone=files.single)
    if file is None:
        return None
    try:
        with np.load(io.BytesIO(files[file]), allow_pickle=False) as stored:
            if lacking := [part for part in PARTS if part not in stored]:
                raise ConfigError(f"{file} must have {', '.join(PARTS)}; it lacks {', '.join(lacking)}")
            return {part: _bytes(stored[part], f"{file} {part}") for part in PARTS}
    except ConfigError:
        raise
    except (*BROKEN, ValueError) as error:
        raise ConfigError(f"{file} is damaged ({error})") from None


def _chosen(found: list[str], name: str, alone: bool) -> str | None:
    wanted = {f"{name}.npz", f"{name.replace('-', '_')}.npz"}
    named = [file for file in found if file in wanted]
    return named[0] if named else (found[0] if found and alone else None)


def _bytes(array: Array, what: str) -> Array:
    """uint8; labels that are kept as one column of larger numbers, as Keras does, are made plain."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind not in "iu" or array.size == 0 or array.min() < 0 or array.max() > 255:
        raise ConfigError(f"{what} must be whole numbers in 0..255; got {array.dtype} {array.shape}")
    return array.astype(np.uint8)
