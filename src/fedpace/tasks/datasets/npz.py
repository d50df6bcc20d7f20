"""Arrays in one .npz with the keys x_train, y_train, x_test, y_test."""

from __future__ import annotations

import io

import numpy as np

from fedpace.errors import ConfigError
from fedpace.tasks.datasets import zipped
from fedpace.tasks.datasets.archive import BROKEN, Files
from fedpace.tasks.datasets.data import PARTS, Array
from fedpace.tasks.datasets.npy import from_npy


def decode(files: Files, name: str) -> dict[str, Array] | None:
    """The four arrays of the .npz for data set `name`, or of the only .npz there is; None if there is none."""
    file = _chosen([file for file in files if file.endswith(".npz")], name, alone=files.single)
    if file is None:
        return None
    try:
        return _decoded(io.BytesIO(files[file]), file)
    except ConfigError:
        raise
    except BROKEN as error:
        raise ConfigError(f"{file} is damaged ({error})") from None


def _decoded(content: io.BytesIO, file: str) -> dict[str, Array]:
    stored = zipped.members(content)
    if lacking := [part for part in PARTS if f"{part}.npy" not in stored]:
        raise ConfigError(f"{file} must have {', '.join(PARTS)}; it lacks {', '.join(lacking)}")
    found = {}
    for part in PARTS:
        what = f"{file} {part}"
        found[part] = _bytes(from_npy(zipped.read(content, stored[f"{part}.npy"], what), what), what)
    return found


def _chosen(found: list[str], name: str, alone: bool) -> str | None:
    wanted = {f"{name}.npz", f"{name.replace('-', '_')}.npz"}
    named = [file for file in found if file in wanted]
    return named[0] if named else (found[0] if found and alone else None)


def _bytes(array: Array, what: str) -> Array:
    """uint8; labels stored as one column of larger numbers, as Keras does, are made plain."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.min() < 0 or array.max() > 255:
        raise ConfigError(f"{what} must be whole numbers in 0..255; got {array.min()}..{array.max()}")
    return array.astype(np.uint8)
