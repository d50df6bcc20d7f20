"""A checkpoint that somebody else has written: whatever is in it, the answer is one line and a CheckpointError."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

import fedpace
from fedpace import algorithms
from fedpace.errors import CheckpointError
from fedpace.record import Checkpoints
from fedpace.record.run import timeline
from fedpace.record.store import checkpoint, snapshot
from fedpace.record.store.checkpointer import HEAD
from fedpace.record.store.tree import Tree
from fedpace.tasks import quadratics

TASK = quadratics([[1.0, -2.0], [4.0, 0.5], [3.0, 3.0]])
ALGORITHM = algorithms.fedbuff(client_lr=0.25, steps=2, buffer=2, concurrency=3, beta=0.5, nu=1.0)


def simulate(folder: Path) -> fedpace.Run:
    plan = Checkpoints(folder, every=2)
    return fedpace.simulate(ALGORITHM, TASK, checkpoint=plan, rounds=4, seed=1, keep_models=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    simulate(tmp_path / "run")
    (tmp_path / "run" / checkpoint.PREVIOUS).unlink()
    return tmp_path / "run"


def refused(folder: Path) -> str:
    with pytest.raises(CheckpointError) as error:
        simulate(folder)
    said = str(error.value)
    assert said.startswith(f"{folder / checkpoint.CURRENT} cannot be resumed: ") and "\n" not in said
    return said.partition("cannot be resumed: ")[2]


def rewrite(folder: Path, change: Any) -> None:
    """The same checkpoint with another head or tree, and a checksum that fits."""
    head, tree = checkpoint.read(folder / checkpoint.CURRENT)
    head, tree = change(head, tree)
    (folder / checkpoint.CURRENT).write_bytes(checkpoint.encode(tree, head))


def test_it_was_good_before(folder: Path) -> None:
    rewrite(folder, lambda head, tree: (head, tree))
    assert len(simulate(folder).history) == 4


@pytest.mark.parametrize("field", HEAD)
def test_a_head_that_lacks_a_field(folder: Path, field: str) -> None:
    rewrite(folder, lambda head, tree: ({name: v for name, v in head.items() if name != field}, tree))
    assert refused(folder) == f"it is damaged: its head lacks {field}; there is no other one"


@pytest.mark.parametrize("value", [None, "x", [], {}, {"bytes": "all"}, -1.5, True, {"a": [1]}])
@pytest.mark.parametrize("field", HEAD)
def test_a_head_with_a_field_of_another_kind(folder: Path, field: str, value: object) -> None:
    if (field, value) in (("experiment", {}), ("experiment", {"bytes": "all"}), ("real_seconds", -1.5)):
        pytest.skip("of the right kind")
    rewrite(folder, lambda head, tree: ({**head, field: value}, tree))
    assert refused(folder) == f"it is damaged: its head lacks {field}; there is no other one"


@pytest.mark.parametrize("head", [[], None, 7, "text"])
def test_a_head_that_is_none(folder: Path, head: Any) -> None:
    rewrite(folder, lambda _, tree: (head, tree))
    assert refused(folder).startswith("it is damaged: its tree or its head is of another kind")


@pytest.mark.parametrize(
    ("field", "value"), [("bytes", 2**62), ("bytes", -1), ("steps", 2**40), ("steps", -3), ("crc32", 5)]
)
def test_a_journal_that_is_not_so_long(folder: Path, field: str, value: int) -> None:
    """Nothing of the size that it claims is ever asked for."""
    rewrite(folder, lambda head, tree: ({**head, "journal": {**head["journal"], field: value}}, tree))
    assert "is damaged" in refused(folder)


@pytest.mark.parametrize(
    "line",
    [
        "7",
        "[]",
        "null",
        "{}",
        '["step"]',
        '["step", 1, 2, 3, 4, 5, 6, 7]',
        '["step", "1", 0.5, [0], [0], 1, 1, {}]',
        '["step", 1, 0.5, [0], [0], 1, 1, {"loss": "low"}]',
        '["activity", 0, 0, 1, "train", 0]',
        '["activity", 0, NaN, 1, "train", 0, 0]',
        '["fate", 0, 0, "consumed", "1"]',
        '["other", 1]',
        "[[1]]",
        "[" * 100_000,
        "\xff",
    ],
)
def test_a_journal_with_a_line_of_another_kind(folder: Path, line: str) -> None:
    content = line.encode("latin-1") + b"\n"
    (folder / "history.jsonl").write_bytes(content)
    journal = {"bytes": len(content), "crc32": zlib.crc32(content)}
    rewrite(folder, lambda head, tree: ({**head, "journal": {**head["journal"], **journal}}, tree))
    assert "history.jsonl is damaged: a line of it is of another kind" in refused(folder)


def nodes(node: Any, path: tuple[Any, ...] = ()) -> Any:
    """Every place in a tree."""
    yield path
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, item in inside:
        yield from nodes(item, (*path, key))


def put(node: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = node.copy()
    copy[path[0]] = put(node[path[0]], path[1:], value)
    return copy


def test_a_tree_with_any_node_of_another_kind_is_refused_or_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every place of the tree each of these; putting it back says CheckpointError, or the value was as good."""
    put_back, seen = snapshot.put, []
    monkeypatch.setattr(snapshot, "put", lambda tree, simulation: seen.append(simulation))
    with contextlib.suppress(Exception):  # nothing was put back
        simulate(folder)
    _, tree = checkpoint.read(folder / checkpoint.CURRENT)
    put_back(tree, seen[0])
    refusals = 0
    for path in list(nodes(tree.root)):
        for value in ("text", -1, [], {"a": 10**6}, {"t": [[]]}):
            try:
                put_back(Tree(put(tree.root, path, value), tree.arrays, tree.layouts), seen[0])
            except CheckpointError:
                refusals += 1
    assert refusals > 100


@pytest.mark.parametrize("layouts", [[], [[]], [["a"]], 7, {"a": 1}])
def test_a_tree_with_other_layouts(folder: Path, layouts: Any) -> None:
    rewrite(folder, lambda head, tree: (head, Tree(tree.root, tree.arrays, layouts)))
    refused(folder)


@pytest.mark.parametrize(
    "metadata",
    ["[]", "7", f'{{"format": "{checkpoint.FORMAT}"}}', '{"format": []}', '{"format": "x"}', "[" * 10**5],
)
def test_a_file_with_other_metadata(folder: Path, metadata: str) -> None:
    text = f'{{"__metadata__": {metadata}}}'.encode()
    (folder / checkpoint.CURRENT).write_bytes(len(text).to_bytes(8, "little") + text)
    assert refused(folder).startswith("it is damaged or incomplete")


@pytest.mark.parametrize("name", [checkpoint.CURRENT, "history.jsonl", "models.bin"])
def test_a_pipe_is_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert "cannot be read (it is not a regular file)" in refused(folder)


STRETCH = {
    "client": 0,
    "start": 0,
    "end": 1,
    "kind": "train",
    "version": 0,
    "session": 0,
    "fate": "consumed",
    "step": 1,
}


@pytest.mark.parametrize(
    "text",
    [
        "[7]",
        "{}",
        '{"a": 1}',
        '[{"client": 1}]',
        "[" * 100_000,
        json.dumps([{**STRETCH, "end": float("inf")}]),
        json.dumps([{**STRETCH, "start": float("nan")}]),
        json.dumps([{**STRETCH, "client": float("inf")}]),
        json.dumps([{**STRETCH, "end": 10**400}]),
        json.dumps([{**STRETCH, "kind": "dance"}]),
    ],
)
def test_timelines_of_another_kind(tmp_path: Path, text: str) -> None:
    from fedpace.errors import ConfigError

    for suffix in (".json", ".csv"):
        path = tmp_path / f"timeline{suffix}"
        path.write_text(text)
        with pytest.raises(ConfigError, match="timeline must be a file that --timeline wrote"):
            timeline.read(path)
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(ConfigError, match="it is not a regular file"):
        timeline.read(tmp_path / "pipe.csv")
