"""A checkpoint is whole, or it is refused with a line that says why and offers the one before."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace import algorithms
from fedpace.errors import CheckpointError, ConfigError, StorageError
from fedpace.record import Checkpoints
from fedpace.record.store import checkpoint
from fedpace.record.store.tree import Tree
from fedpace.sim.observer import Observer, StepRecord
from fedpace.tasks import quadratics
from fedpace.vector import Vector

TASK = quadratics([[1.0, -2.0], [4.0, 0.5], [3.0, 3.0]])
ROUNDS = 12


class Power(Observer):
    """Cuts the run off at a step."""

    def __init__(self, off_at: int) -> None:
        self.off_at = off_at

    def recorded(self, record: StepRecord, x: Vector) -> None:
        if record.version == self.off_at:
            raise KeyboardInterrupt


def simulate(folder: Path | None, *, off_at: int = 0, task: Any = TASK, **more: Any) -> fedpace.Run:
    plan = None if folder is None else Checkpoints(folder, every=3, previous=more.pop("previous", False))
    options: dict[str, Any] = {"rounds": ROUNDS, "keep_models": True, "seed": 1, **more}
    algorithm = algorithms.fedbuff(client_lr=0.25, steps=2, buffer=2, concurrency=3, beta=0.5, nu=1.0)
    return fedpace.simulate(algorithm, task, checkpoint=plan, observers=[Power(off_at)], **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run that was cut off after its second checkpoint: step 6, the previous one of step 3."""
    with pytest.raises(KeyboardInterrupt):
        simulate(tmp_path / "run", off_at=8)
    return tmp_path / "run"


def same(a: fedpace.Run, b: fedpace.Run) -> bool:
    assert a.models is not None and b.models is not None
    return (
        a.to_json() == b.to_json()
        and a.timeline() == b.timeline()
        and a.model.tobytes() == b.model.tobytes()
        and [x.tobytes() for x in a.models] == [x.tobytes() for x in b.models]
    )


def test_the_same_call_goes_on_to_the_same_bits_and_then_returns_at_once(folder: Path) -> None:
    whole = simulate(None)
    assert same(simulate(folder), whole)
    assert same(simulate(folder, off_at=1), whole)  # no step is taken again


def test_real_seconds_add_up_over_interruptions(folder: Path) -> None:
    spent = checkpoint.read(folder / checkpoint.CURRENT)[0]["real_seconds"]
    assert simulate(folder).summary["real_seconds"] > spent > 0


def test_a_run_cut_off_before_its_first_checkpoint_starts_over(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        simulate(tmp_path, off_at=2)
    assert same(simulate(tmp_path), simulate(None))


# ------------------------------------------------------------ damages


def cut(size: float) -> Callable[[Path], None]:
    def apply(file: Path) -> None:
        data = file.read_bytes()
        file.write_bytes(data[: int(len(data) * size)])

    return apply


def flip(at: float) -> Callable[[Path], None]:
    def apply(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[int((len(data) - 1) * at)] ^= 0x10
        file.write_bytes(data)

    return apply


DAMAGES: dict[str, Callable[[Path], None]] = {
    "truncated to nothing": cut(0),
    "truncated in the header": cut(0.02),
    "truncated in the middle": cut(0.5),
    "truncated by a byte": lambda file: file.write_bytes(file.read_bytes()[:-1]) and None,
    "longer by a byte": lambda file: file.write_bytes(file.read_bytes() + b"\0") and None,
    **{f"one bit flipped at {at:.0%}": flip(at) for at in np.linspace(0, 1, 41)},
    "something else": lambda file: file.write_bytes(b"not a checkpoint") and None,
    "removed": lambda file: file.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_the_previous_one_offered(folder: Path, damage: str) -> None:
    DAMAGES[damage](folder / checkpoint.CURRENT)
    with pytest.raises(
        CheckpointError,
        match=r"checkpoint.safetensors cannot be resumed: it .*; the previous"
        r" one, of step 3, is good",
    ):
        simulate(folder)
    assert same(simulate(folder, previous=True), simulate(None))
    assert same(simulate(folder), simulate(None))  # the damaged one is gone


def test_every_single_bit_counts(folder: Path) -> None:
    """A file with one bit flipped, wherever it is, is refused, or says the same as before."""
    data = bytearray((folder / checkpoint.CURRENT).read_bytes())
    known = checkpoint.decode(bytes(data))
    rng = np.random.default_rng(0)
    for at in rng.choice(len(data), 400, replace=False):
        data[at] ^= 1 << int(rng.integers(8))
        with contextlib.suppress(CheckpointError):
            assert json.dumps(_plain(checkpoint.decode(bytes(data)))) == json.dumps(_plain(known))
        data = bytearray((folder / checkpoint.CURRENT).read_bytes())


def _plain(decoded: tuple[dict[str, Any], Tree]) -> object:
    head, tree = decoded
    return [head, tree.root, tree.layouts, [array.tolist() for array in tree.arrays]]


def test_if_both_are_damaged_it_says_so(folder: Path) -> None:
    for name in (checkpoint.CURRENT, checkpoint.PREVIOUS):
        flip(0.7)(folder / name)
    with pytest.raises(CheckpointError, match="checksum does not match; there is no other one"):
        simulate(folder)


@pytest.mark.parametrize("damage", ["truncated in the middle", "one bit flipped at 25%", "removed"])
def test_a_damaged_history_is_refused(folder: Path, damage: str) -> None:
    DAMAGES[damage](folder / "history.jsonl")
    with pytest.raises(CheckpointError, match=r"history\.jsonl is damaged"):
        simulate(folder)


@pytest.mark.parametrize("damage", ["truncated in the middle", "one bit flipped at 25%", "removed"])
def test_damaged_models_are_refused(folder: Path, damage: str) -> None:
    DAMAGES[damage](folder / "models.bin")
    with pytest.raises(CheckpointError, match=r"models\.bin is damaged"):
        simulate(folder)


def test_what_was_written_after_the_checkpoint_is_cut_off(folder: Path) -> None:
    with open(folder / "history.jsonl", "ab") as file:
        file.write(b'["step", half a li')
    assert same(simulate(folder), simulate(None))


def test_a_checkpoint_of_a_newer_version_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head, tree = checkpoint.read(folder / checkpoint.CURRENT)
    monkeypatch.setattr(checkpoint, "FORMAT", checkpoint.FORMAT + 1)
    checkpoint.write(folder, checkpoint.encode(tree, head))
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"newer fedpace \(format 3; this one reads 2\); the previous"):
        simulate(folder)


def test_checkpoints_with_frames_of_version_1_are_refused(folder: Path) -> None:
    for name in (checkpoint.CURRENT, checkpoint.PREVIOUS):
        data = (folder / name).read_bytes()
        assert data.count(b'"format":"2"') == 1
        (folder / name).write_bytes(data.replace(b'"format":"2"', b'"format":"1"'))
    with pytest.raises(
        CheckpointError,
        match=r"cannot be resumed: it was written by an older fedpace "
        r"\(format 1, frame version 1; this one reads 2\); there is no other one$",
    ):
        simulate(folder)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"task": quadratics([[1.0, -2.0], [4.0, 0.5], [3.0, 3.5]])}, "whose task is quadratics"),
        ({"seed": 2}, "whose seed is 1; this one has 2"),
        ({"rounds": 20}, "whose rounds is 12; this one has 20"),
        ({"keep_models": False}, "whose keep models is True"),
        ({"population": fedpace.sim.Population.from_times(2.0)}, "whose population is None"),
    ],
)
def test_the_checkpoint_of_another_experiment_is_refused(folder: Path, change: Any, reason: str) -> None:
    with pytest.raises(CheckpointError, match=f"another experiment, {reason}"):
        simulate(folder, **change)


def test_only_one_process_works_in_a_folder(folder: Path) -> None:
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    command = [sys.executable, "-c", code, str(folder / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(ConfigError, match="another process is working in it"):
            simulate(folder)
        other.send_signal(signal.SIGKILL)
    assert same(simulate(folder), simulate(None))


# ------------------------------------------------------------ the disk


def test_a_full_disk_stops_the_run_cleanly_and_leaves_the_last_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        StorageError, match=r"after step 9 could not be written \(No space left on device\)"
    ) as stop:
        simulate(folder)
    assert len(stop.value.run.history) == 9
    heads = [checkpoint.read(folder / name)[0] for name in (checkpoint.PREVIOUS, checkpoint.CURRENT)]
    assert [head["version"] for head in heads] == [3, 6]
    monkeypatch.undo()
    assert sorted(file.name for file in folder.iterdir()) == [
        "checkpoint.previous.safetensors",
        "checkpoint.safetensors",
        "history.jsonl",
        "lock",
        "models.bin",
    ]
    assert same(simulate(folder), simulate(None))


def test_a_file_that_may_not_grow_stops_the_run_cleanly(folder: Path) -> None:
    """The system itself refuses: no file may be longer than the checkpoint that is there."""
    size = (folder / checkpoint.CURRENT).stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, hard))
    try:
        with pytest.raises(StorageError, match=r"could not be written \(File too large\)"):
            simulate(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert same(simulate(folder), simulate(None))


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="checkpoint must be a folder that can be made"):
        simulate(tmp_path / "file" / "run")


@pytest.mark.parametrize("every", [0, -1, "0s", "soon", "3 steps"])
def test_a_rhythm_that_means_nothing_is_refused(every: Any) -> None:
    with pytest.raises(ConfigError, match="checkpoint every must be"):
        Checkpoints("folder", every)


@pytest.mark.parametrize(("every", "steps"), [(5, 5), ("5", 5)])
def test_a_rhythm_in_steps(every: Any, steps: int) -> None:
    assert Checkpoints("folder", every).steps == steps


def test_a_rhythm_in_seconds() -> None:
    assert Checkpoints("folder", "2.5s").seconds == 2.5
