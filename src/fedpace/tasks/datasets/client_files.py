"""A folder of one file per client, NAME.npz or NAME.csv: untrusted, so bounded and checked.

An .npz has `x` and `y`, and may have `x_test` and `y_test`; a .csv has a header, one sample per line, and its class in
the column `label`. `test.npz` or `test.csv` is test data of nobody's own.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from fedpace.errors import ConfigError, require
from fedpace.tasks.datasets import bounded, zipped
from fedpace.tasks.datasets.data import Array, Data
from fedpace.tasks.datasets.npy import NUMBERS, from_npy
from fedpace.untrusted import read_regular

SUFFIXES = (".npz", ".csv")
TEST = "test"  # the name of the file that is no client's
LABELS = ("label", "labels", "target", "y", "class")  # columns that may hold the class
LIMIT_FILES = 100_000
LIMIT_FOLDER_BYTES = 1 << 33
MOST_CLASSES = 10_000
MOST_COLUMNS = 1_000_000

Samples = tuple[Array, Array]


def from_folder(path: Path) -> Data:
    """All clients of a folder, in the order of their names; each is a natural group."""
    files = files_in(path, SUFFIXES)
    twice = [stem for stem, count in Counter(file.stem for file in files).items() if count > 1]
    require(not twice, f"clients in {path}", twice, "one file each, .npz or .csv")
    found = {file.stem: read_client(content_of(file), file.name) for file in files}
    shared = [found.pop(TEST)["train"]] if TEST in found else []
    require(bool(found), f"{path}", f"only {TEST}", "a folder with files of clients")
    return assembled(path.name, f"folder:{path}", found, shared)


def assembled(
    name: str, source: str, clients: Mapping[str, Mapping[str, Samples]], shared: list[Samples]
) -> Data:
    """One data set of all clients' samples; `shared` is test data of nobody's own."""
    numbers = {client: number for number, client in enumerate(clients)}
    train = [(numbers[client], parts["train"]) for client, parts in clients.items() if "train" in parts]
    tested = [(numbers[client], parts["test"]) for client, parts in clients.items() if "test" in parts]
    test = [(0, samples) for samples in shared] or tested
    allowed = "with test data: test.npz or test.csv, or x_test and y_test in the clients' files"
    require(bool(test), name, "none", allowed)
    (x, y, groups), (x_test, y_test, groups_test) = _joined(train, name), _joined(test, name)
    _require_one_shape(x.shape[1:], x_test.shape[1:], f"{name} test data")
    return Data(
        name,
        x,
        y,
        x_test,
        y_test,
        1 + int(max(y.max(), y_test.max())),
        groups,
        None if shared else groups_test,
        source=source,
        group_names=tuple(clients),
    )


def _joined(parts: list[tuple[int, Samples]], name: str) -> tuple[Array, Array, Array]:
    require(bool(parts), f"{name} training data", "none", "samples of at least one client")
    shape = parts[0][1][0].shape[1:]
    for _, (x, _) in parts:
        _require_one_shape(shape, x.shape[1:], name)
    sizes = [len(y) for _, (_, y) in parts]
    groups = np.repeat([number for number, _ in parts], sizes)
    return np.concatenate([x for _, (x, _) in parts]), np.concatenate([y for _, (_, y) in parts]), groups


def _require_one_shape(shape: tuple[int, ...], other: tuple[int, ...], what: str) -> None:
    require(shape == other, f"samples of {what}", other, f"of one shape, {shape}")


def content_of(file: Path) -> bytes:
    """A file of at most the largest size; ConfigError where it cannot be read."""
    try:
        return read_regular(file, bounded.LIMIT_BYTES)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror})") from None


def files_in(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """The files of a folder with one of these suffixes, by name; not too many, and not too large together."""
    require(folder.is_dir(), "data", str(folder), "in a folder that exists")
    found = sorted(entry for entry in folder.iterdir() if entry.suffix in suffixes and entry.is_file())
    allowed = f"1 to {LIMIT_FILES:,}, {' or '.join(f'*{suffix}' for suffix in suffixes)}"
    require(0 < len(found) <= LIMIT_FILES, f"files in {folder}", len(found), allowed)
    total = sum(entry.stat().st_size for entry in found)
    require(total <= LIMIT_FOLDER_BYTES, f"bytes in {folder}", total, f"at most {LIMIT_FOLDER_BYTES:,}")
    return found


# ------------------------------------------------------------ one file


def read_client(content: bytes, name: str) -> dict[str, Samples]:
    """The samples in one file: "train", and "test" where it has them."""
    return from_npz(content, name) if name.endswith(".npz") else from_csv(content, name)


def from_npz(content: bytes, name: str) -> dict[str, Samples]:
    try:
        stored = zipped.members(file := io.BytesIO(content))
        lacking = [part for part in ("x", "y") if f"{part}.npy" not in stored]
        require(not lacking, name, ", ".join(sorted(stored)) or "nothing", "an .npz with x and y")
        arrays = {
            part: from_npy(
                zipped.read(file, stored[f"{part}.npy"], f"{name} {part}"), f"{name} {part}", NUMBERS
            )
            for part in ("x", "y", "x_test", "y_test")
            if f"{part}.npy" in stored
        }
    except zipped.DAMAGED as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{name} is damaged ({error})") from None
    found = {"train": checked(arrays["x"], arrays["y"], name)}
    both = [part in arrays for part in ("x_test", "y_test")]
    require(all(both) or not any(both), name, sorted(arrays), "with both of x_test and y_test, or neither")
    if all(both):
        found["test"] = checked(arrays["x_test"], arrays["y_test"], f"{name} test data")
    return found


def from_csv(content: bytes, name: str) -> dict[str, Samples]:
    try:
        lines = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        header = [column.strip() for column in next(lines, [])]
        require(len(header) <= MOST_COLUMNS, f"columns of {name}", len(header), f"at most {MOST_COLUMNS:,}")
        label = next((column for column in LABELS if column in header), None)
        require(label is not None, f"columns of {name}", header, f"among them one of {', '.join(LABELS)}")
        at = header.index(str(label))
        values = np.array(list(_rows(lines, len(header), name)), np.float64)
    except (csv.Error, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{name} must be numbers in lines of one length ({error})") from None
    require(values.size > 0 and len(header) > 1, name, f"{len(values)} samples", "samples and their label")
    return {"train": checked(np.delete(values, at, axis=1), values[:, at], name)}


def _rows(lines: Iterable[list[str]], width: int, name: str) -> Iterator[list[float]]:
    for number, row in enumerate(lines, start=2):
        if row:
            require(len(row) == width, f"{name} line {number}", f"{len(row)} values", f"of {width} values")
            yield [float(cell) for cell in row]


def checked(x: Array, y: Array, what: str) -> Samples:
    """Features as float32 and classes as whole numbers, finite, one label per sample."""
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    require(x.ndim >= 2 and y.ndim == 1, what, (x.shape, y.shape), "x of two or more axes and y of one")
    require(len(x) == len(y) > 0, what, (len(x), len(y)), "one label per sample, and at least one")
    whole = np.isfinite(y.astype(np.float64)).all() and (y == np.floor(y.astype(np.float64))).all()
    good = bool(whole) and y.min() >= 0 and y.max() < MOST_CLASSES
    require(good, f"labels of {what}", y[:5].tolist(), f"whole numbers in 0..{MOST_CLASSES - 1}")
    with np.errstate(over="ignore"):
        features = np.ascontiguousarray(x, np.float32)
    require(bool(np.isfinite(features).all()), f"samples of {what}", "others", "finite numbers")
    return features, y.astype(np.int64)
