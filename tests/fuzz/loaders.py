"""Everything that reads files from elsewhere, as functions of their bytes alone, with a few good inputs for each."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedpace.cli.population import population
from fedpace.cli.settings import parse_value
from fedpace.record import rows
from fedpace.record.run import timeline
from fedpace.record.run.history import History
from fedpace.record.store import checkpoint
from fedpace.record.store.history_file import LINES, HistoryFile, Position
from fedpace.record.store.tree import Tree, Typed, pack, unpack
from fedpace.tasks.datasets import bounded, cifar, client_files, find, idx, leaf, npy, npz, shakespeare, store
from fedpace.tasks.datasets.archive import Files, candidates
from fedpace.tasks.datasets.catalogue import Source
from fedpace.tasks.partition import index_lists, partition
from tasks import forms

Load = Callable[[bytes], object]
CIFAR10 = forms.cifar_arrays(10, train=10, test=10)
STRIPS = forms.png_strips(CIFAR10)
LIMIT_BYTES = 1 << 20  # while fuzzing: bombs are refused sooner


@dataclass(frozen=True)
class Loader:
    """A function that must raise FedpaceError or return, and inputs that it accepts."""

    load: Load
    seeds: Callable[[], Iterator[bytes]]


def unverified(file: str, content: bytes) -> None:
    """In place of the checksums, which would keep fuzzed input from everything behind them."""


def files(contents: dict[str, bytes]) -> Files:
    return Files(Path(), {name: lambda content=content: content for name, content in contents.items()})


def in_a_file(load: Callable[[Path], object], name: str) -> Load:
    """The same for a loader that is given a path."""

    def read(content: bytes) -> object:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(content)
            return load(path)

    return read


# ------------------------------------------------------------ data sets


def _batches(suffix: str, classes: int) -> Load:
    names = [f"{batch}{suffix}" for batch in (*cifar.BATCHES[classes], cifar.TEST[classes])]

    def load(content: bytes) -> object:
        beside = {
            "train_labels.json": STRIPS["train_lables.json"],
            "test_labels.json": STRIPS["test_lables.json"],
        }
        return cifar.decode(files({**dict.fromkeys(names, content), **beside}), f"cifar{classes}", unverified)

    return load


def _labels(content: bytes) -> object:
    return cifar.decode(files({**STRIPS, "train_lables.json": content}), "cifar10", unverified)


def _npz(content: bytes) -> object:
    return npz.decode(files({"cifar10.npz": content}), "cifar10")


def _shakespeare(content: bytes) -> object:
    return shakespeare.decode(files({"input.txt": content}), "shakespeare", unverified)


def _everything(found: Files, name: str, verify: object) -> dict[str, Any]:
    return dict(found)


def _archive(path: Path) -> object:
    """Every file in the first place that is looked at: the archive itself."""
    whole = Source("all", 0, _everything, {}, ())
    return [find._decoded(whole, found) for found in islice(candidates(path), 1)]


def _compressed(content: bytes) -> object:
    return [bounded.decompressed(content, method) for method in bounded.METHODS]


def _manifest(path: Path) -> object:
    return store._entries(path.parent)


def _batch_seeds(classes: int) -> Iterator[bytes]:
    x, y = CIFAR10["x_test"][:1], CIFAR10["y_test"][:1]
    yield forms.python_batch(x, y, classes)
    key = "labels" if classes == 10 else "fine_labels"
    for protocol in (2, 4, 5):
        yield pickle.dumps({"data": np.zeros((1, 3072), np.uint8), key: [3]}, protocol=protocol)
    yield pickle.dumps({b"data": np.ones(3, np.float64), key: ["a"]}, protocol=2)


def _npy_seeds() -> Iterator[bytes]:
    for values in (
        np.arange(6, dtype=np.uint8),
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.eye(2, dtype=np.int32)),
    ):
        buffer = io.BytesIO()
        np.save(buffer, values)
        yield buffer.getvalue()


def _zip(contents: dict[str, bytes], method: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return buffer.getvalue()


ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def _npz_seeds() -> Iterator[bytes]:
    small = next(_npy_seeds())
    for method in ZIP_METHODS:
        yield _zip({f"{part}.npy": small for part in CIFAR10}, method)


def _archive_seeds() -> Iterator[bytes]:
    contents = {"inside/a": b"some bytes", "inside/b.gz": gzip.compress(b"more bytes", mtime=0)}
    for method in ZIP_METHODS:
        yield _zip(contents, method)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name + "é")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    whole = buffer.getvalue().rstrip(b"\0") + bytes(1024)
    yield from (whole, gzip.compress(whole, mtime=0), bz2.compress(whole), lzma.compress(whole))


def _compressed_seeds() -> Iterator[bytes]:
    text = b"to be or not to be " * 9
    deflate = zlib.compressobj(wbits=-15)
    yield from (gzip.compress(text, mtime=0), bz2.compress(text), lzma.compress(text))
    yield from (lzma.compress(text, lzma.FORMAT_ALONE), deflate.compress(text) + deflate.flush())


def _manifest_seeds() -> Iterator[bytes]:
    yield json.dumps(
        {"arrays": dict.fromkeys(CIFAR10, {"sha256": "0" * 64, "bytes": 9, "mtime_ns": 7})}
    ).encode()


def _client_seeds() -> Iterator[bytes]:
    for kind in (np.float32, np.float64, np.uint8):
        buffer = io.BytesIO()
        x, y = np.arange(6, dtype=kind).reshape(3, 2), np.array([0, 1, 0])
        np.savez(buffer, x=x, y=y, **({"x_test": x, "y_test": y} if kind is np.uint8 else {}))
        yield buffer.getvalue()


def _index_lists(content: bytes) -> object:
    lists = index_lists.lists_in(content, "it")
    return lists.split(np.arange(40) % 10, None, lists.clients, np.random.default_rng(0))


TABLES = ("a,b,label\n1,2.5,0\n-3,4e2,1\n", "\ufefflabel,a\n0,1\n\n1,2\n")
USERS = (
    '{"users": ["a"], "num_samples": [2], "user_data": {"a": {"x": [[0.5, 1], [0, 1]], "y": [0, 1]}}}',
    json.dumps({"user_data": {"b": {"x": [[0.5] * 784], "y": [61]}}}),
)
PLAY = b"ROMEO:\n" + b"But soft, what light through yonder window breaks?\n" * 4

# ------------------------------------------------------------ experiments


def _partition(content: bytes) -> object:
    rule = partition(content.decode(errors="replace"))
    return rule.split(np.arange(40) % 10, None, 4, np.random.default_rng(0))


def _population(path: Path) -> object:
    found = population(str(path))
    assert found is not None
    return found.bind(3, seed=0)


def _setting(content: bytes) -> object:
    return parse_value(content.decode(errors="replace"))


SETTINGS = (
    "1..6",
    "[1, 2.5]",
    "Momentum(lr=2, beta=0.9)",
    "TopK(ratio=0.1)",
    "none",
    "'a'",
    "poly:0.5",
    "-1e-3",
)
TIMES = (
    "client,compute_s,up_s,down_s\n0,1,2,3\n1,0.5,,\n2,1e3,0,0\n",
    "client,from,to\n0,0,5\n1,2,\n2,0,1\n2,1,3\n",
)
RULES = (
    "iid",
    "dirichlet:0.3,min=2",
    "classes:2",
    "shards:2,unbalanced",
    "quantity:0.5",
    "dirichlet:1,balanced",
)


# ------------------------------------------------------------ runs


@dataclass(frozen=True)
class Leaf:
    """A state with a field of every kind that states have."""

    count: int
    share: float
    name: str
    held: np.ndarray[Any, np.dtype[np.float64]] | None
    frames: dict[int, bytes]
    pairs: list[tuple[int, float]]
    seen: set[int]
    inner: Leaf | None = None


LEAF = Leaf(3, 0.5, "a", np.arange(2.0), {1: b"x"}, [(1, float("inf"))], {4}, None)
NESTED = Leaf(1, 1.5, "b", None, {}, [], set(), LEAF)


def _tree(content: bytes) -> object:
    """The JSON of a tree, beside arrays that are as they should be."""
    try:
        text = json.loads(content)
        tree = Tree(text["root"], pack(NESTED, Typed(Leaf)).arrays, text["layouts"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None  # `checkpoint.decode` has refused it before
    return unpack(tree, Typed(Leaf))


def _tree_seeds() -> Iterator[bytes]:
    for value in (LEAF, NESTED):
        tree = pack(value, Typed(Leaf))
        yield json.dumps({"root": tree.root, "layouts": tree.layouts}).encode()


def _checkpoint_seeds() -> Iterator[bytes]:
    head = {"version": 3, "experiment": {"task": "a"}, "journal": {"bytes": 1}, "real_seconds": 0.5}
    yield checkpoint.encode(pack(LEAF, Typed(Leaf)), head)


def _journal(path: Path) -> object:
    content = path.read_bytes()
    history = History()
    at = Position(bytes=len(content), crc32=zlib.crc32(content))
    HistoryFile(path.parent).read(at, history, np.zeros(2))
    return history.steps


JOURNAL = (
    '["step",1,0.5,[0,1],[0,0],7,8,{"loss":0.5}]\n'
    '["clients",1,"accuracy",true,[0.5,null]]\n'
    '["activity",0,0.0,1.5,"train",0,1]\n["fate",0,1,"consumed",1]\n["fate",0,1,"dropped",null]\n'
)
STEP = {
    "run": 1,
    "version": 1,
    "virtual_seconds": 0.5,
    "clients": "[0, 1]",
    "staleness": "[0, 0]",
    "bytes_up": 7,
    "bytes_down": 8,
    "epsilon": None,
    "clipped": 2,
    "metrics": '{"loss": 0.5}',
}


RUN = {
    "id": 1,
    "name": "night",
    "status": "done",
    "began": datetime(2025, 1, 1),
    "ended": None,
    "algorithm": "fedavg",
    "task": "digits",
    "seed": 0,
    "rounds": 3,
    "fingerprint": "0",
    "note": "",
    "settings": "beta=0.9",
    "experiment": '{"clients": "5"}',
    "arguments": '["fedavg"]',
    "about": '{"versions": {"numpy": "2"}, "papers": ["a"]}',
    "counters": '{"solved": 3}',
    "summary": '{"compute": "inline", "real_seconds": 0.5}',
    "traffic": '{"clients": {"0": {"bytes_up": 1}}}',
}


def _row(read: Callable[[Any], object], whole: dict[str, Any], *columns: str) -> Loader:
    """A row of the run store: the columns that are JSON, one on each line."""

    def load(content: bytes) -> object:
        lines = dict(zip(columns, content.decode(errors="replace").split("\n"), strict=False))
        return read(SimpleNamespace(**{**whole, **lines}))

    return Loader(load, lambda: iter(["\n".join(whole[column] for column in columns).encode()]))


STRETCH = {
    "client": 0,
    "start": 0,
    "end": 1.5,
    "kind": "train",
    "version": 0,
    "session": 1,
    "fate": "",
    "step": None,
}


# ------------------------------------------------------------ all of them


@cache
def loaders() -> dict[str, Loader]:
    def texts(*found: str) -> Callable[[], Iterator[bytes]]:
        return lambda: (text.encode() for text in found)

    binary = cifar.to_binary(CIFAR10["x_test"][:1], CIFAR10["y_test"][:1], 10)
    images = idx.to_idx(CIFAR10["x_test"][:2, :3, :3, 0])
    return {
        "idx": Loader(lambda content: idx.from_idx(content, "it"), lambda: iter([images, images[:4]])),
        "npy": Loader(lambda content: npy.from_npy(content, "it"), _npy_seeds),
        "npz": Loader(_npz, _npz_seeds),
        "cifar10-python": Loader(_batches("", 10), lambda: _batch_seeds(10)),
        "cifar100-python": Loader(_batches("", 100), lambda: _batch_seeds(100)),
        "cifar10-binary": Loader(_batches(".bin", 10), lambda: iter([binary, binary[:-1]])),
        "cifar10-png": Loader(_batches(".png", 10), lambda: iter([STRIPS["data_batch_1.png"]])),
        "cifar10-labels": Loader(_labels, texts("[1, 2, 3, 4, 5, 6, 7, 8, 9, 0]", "[[1, 2], [3]]")),
        "shakespeare": Loader(_shakespeare, lambda: iter([PLAY, PLAY + b"\n\nJULIET:\nO!"])),
        "client-npz": Loader(lambda content: client_files.from_npz(content, "a.npz"), _client_seeds),
        "client-csv": Loader(lambda content: client_files.from_csv(content, "a.csv"), texts(*TABLES)),
        "leaf": Loader(lambda content: leaf.users_in(content, "a.json"), texts(*USERS)),
        "index-lists": Loader(_index_lists, texts("[[0, 5], [1, 2, 3]]", '{"a": [0], "b": [39]}')),
        "archive": Loader(in_a_file(_archive, "archive"), _archive_seeds),
        "compressed": Loader(_compressed, _compressed_seeds),
        "manifest": Loader(in_a_file(_manifest, store.MANIFEST), _manifest_seeds),
        "partition": Loader(_partition, texts(*RULES)),
        "population": Loader(in_a_file(_population, "devices.csv"), texts(*TIMES)),
        "setting": Loader(_setting, texts(*SETTINGS)),
        "checkpoint": Loader(checkpoint.decode, _checkpoint_seeds),
        "tree": Loader(_tree, _tree_seeds),
        "journal": Loader(in_a_file(_journal, LINES), texts(JOURNAL)),
        "step": _row(rows.record, STEP, "clients", "staleness", "metrics"),
        "run": _row(
            rows.entry, RUN, "experiment", "arguments", "about", "counters", "summary", "traffic", "name"
        ),
        "timeline-json": Loader(in_a_file(timeline.read, "t.json"), texts(json.dumps([STRETCH]))),
        "timeline-csv": Loader(
            in_a_file(timeline.read, "t.csv"), texts(",".join(STRETCH) + "\n0,0,1.5,train,0,1,pending,\n")
        ),
    }
