"""The journal: whatever was acknowledged is there after a power cut at any call, and leads to the same bits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.deploy.deployed import VARIANTS, Bed
from tests.deploy.losing_files import LosingFiles, PowerCut

from fedpace.deploy import genesis
from fedpace.deploy.coordinator import Coordinator
from fedpace.deploy.genesis import Genesis
from fedpace.deploy.inputs import Input
from fedpace.deploy.journal.disk_journal import DiskJournal, JournalLimits, inputs_from, read_segments
from fedpace.deploy.journal.files import MOST_PARTS, DiskFiles
from fedpace.deploy.state import CoordinatorState
from fedpace.errors import ConfigError, StorageError
from fedpace.record.store.snapshot import take_server


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Genesis, list[Input]]:
    """A run with memories on both ends, and all its inputs."""
    folder = tmp_path_factory.mktemp("recorded")
    Bed(VARIANTS["two_way, ef21"], folder, rounds=2).run()
    files = DiskFiles(folder / "server")
    begun = genesis.read(files)
    assert begun is not None
    return begun, list(inputs_from(read_segments(files, begun.run), 0))


def fingerprint(coordinator: Coordinator) -> Any:
    """The whole state as a value that compares: arrays as their bytes, sets in order."""
    tree = take_server(coordinator.server, coordinator.state, CoordinatorState())

    def plain(node: Any) -> Any:
        match node:
            case {"s": items}:
                return {"s": sorted(map(plain, items))}
            case {"a": place} | {"b": place} | {"n": place}:
                return tree.arrays[place].dtype.name, tree.arrays[place].tobytes()
            case dict():
                return {key: plain(item) for key, item in node.items() if key != "l"}
            case list():
                return [plain(item) for item in node]
        return node

    return plain(tree.root)


def batches(inputs: list[Input]) -> Iterator[list[Input]]:
    """A group that is committed together may end anywhere."""
    for at in range(0, len(inputs), 2):
        yield inputs[at : at + 2]


class Server:
    """What the serving loop does, without a loop; `acknowledged` inputs have been answered."""

    def __init__(self, files: LosingFiles, begun: Genesis, mode: str) -> None:
        self.files, self.begun, self.mode, self.acknowledged = files, begun, mode, 0

    def run(self, inputs: list[Input]) -> Coordinator:
        ticks = count()
        limits = JournalLimits(mode=self.mode, every_s=4, reserve_bytes=0)  # a checkpoint every few commits
        if genesis.read(self.files) is None:
            self.begun.write(self.files)
        coordinator = self.begun.coordinator()
        journal = DiskJournal(self.files, self.begun.run, limits, lambda: float(next(ticks)))
        journal.opened(coordinator)
        self.acknowledged = coordinator.state.position
        for batch in batches(inputs[coordinator.state.position :]):
            for each in batch:
                journal.append(each)
                coordinator.handle(each)
            journal.commit()
            self.acknowledged = coordinator.state.position
            journal.save_if_due(coordinator)
        journal.close(coordinator)
        return coordinator


@pytest.mark.parametrize("mode", ["keep", "recover"])
def test_after_a_power_cut_at_any_call_nothing_acknowledged_is_lost_and_the_bits_are_the_same(
    recorded: tuple[Genesis, list[Input]], mode: str
) -> None:
    begun, inputs = recorded
    straight, states = begun.coordinator(), [fingerprint(begun.coordinator())]
    for each in inputs:
        straight.handle(each)
        states.append(fingerprint(straight))
    whole = LosingFiles()
    Server(whole, begun, mode).run(inputs)
    assert whole.calls > 20
    for cut_at in range(1, whole.calls + 1):
        files = LosingFiles(cut_at, Random(cut_at))
        server = Server(files, begun, mode)
        with pytest.raises(PowerCut):
            server.run(inputs)
        found = files.after_power_cut()
        if genesis.read(found) is None:
            assert server.acknowledged == 0
            continue
        recovered = begun.coordinator()
        DiskJournal(found, begun.run).opened(recovered)
        assert server.acknowledged <= recovered.state.position <= len(inputs)
        assert fingerprint(recovered) == states[recovered.state.position]
        assert fingerprint(Server(found, begun, mode).run(inputs)) == states[-1]


def test_recover_deletes_what_two_checkpoints_make_superfluous_and_keep_does_not(
    recorded: tuple[Genesis, list[Input]],
) -> None:
    begun, inputs = recorded
    found = {}
    for mode in ("keep", "recover"):
        files = LosingFiles()
        Server(files, begun, mode).run(inputs)
        found[mode] = read_segments(files, begun.run)
        assert len([name for name in files.names() if name.startswith("checkpoint")]) == 2
    assert found["keep"][0][1].first == 0 < found["recover"][0][1].first
    assert len(list(inputs_from(found["keep"], 0))) == len(inputs)
    with pytest.raises(StorageError, match="begins after input"):
        list(inputs_from(found["recover"], 0))


def test_a_failed_flush_ends_the_journal_and_is_not_tried_again(
    recorded: tuple[Genesis, list[Input]],
) -> None:
    begun, inputs = recorded
    files = LosingFiles()
    journal = DiskJournal(files, begun.run, JournalLimits(reserve_bytes=0)).opened(begun.coordinator())
    journal.append(inputs[0])
    files.failing_sync = True
    with pytest.raises(StorageError, match="Input/output error"):
        journal.commit()
    files.failing_sync = False
    for again in (journal.commit, lambda: journal.append(inputs[1])):
        with pytest.raises(StorageError, match="the server stops here"):
            again()


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (JournalLimits(max_bytes=100, reserve_bytes=0), "its limit of 100 bytes"),
        (JournalLimits(reserve_bytes=10_000), "the reserve is 10,000"),
    ],
)
def test_it_stops_before_the_disk_is_full(
    recorded: tuple[Genesis, list[Input]], limits: JournalLimits, why: str
) -> None:
    begun, inputs = recorded
    files = LosingFiles(free=9_000)
    journal = DiskJournal(files, begun.run, limits).opened(begun.coordinator())
    for each in inputs:
        journal.append(each)
    before = {name: files.read(name) for name in files.names()}
    with pytest.raises(StorageError, match=why):
        journal.commit()
    assert {name: files.read(name) for name in files.names()} == before


def test_damage_in_the_middle_is_an_error_not_a_shorter_run(
    recorded: tuple[Genesis, list[Input]],
) -> None:
    begun, inputs = recorded
    files = LosingFiles()
    Server(files, begun, "keep").run(inputs)
    first = next(name for name in files.names() if name.startswith("segment"))
    files.inodes[first].data[-3] ^= 1
    with pytest.raises(StorageError, match="is damaged"):
        read_segments(files, begun.run)


def test_another_run_in_the_folder_is_refused(tmp_path: Path) -> None:
    Bed(VARIANTS["fedavg"], tmp_path, rounds=1).run()
    with pytest.raises(ConfigError, match="rounds 1; this one has 2"):
        Bed(VARIANTS["fedavg"], tmp_path, rounds=2).run()


@pytest.mark.parametrize("at_once", [None, 1, 5])
def test_parts_are_written_whole_however_few_bytes_the_system_takes(
    at_once: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def writev(handle: int, parts: list[memoryview]) -> int:
        calls.append(len(parts))
        return os.write(handle, b"".join(parts)[:at_once])

    monkeypatch.setattr(os, "writev", writev)
    parts = [bytes([k % 256]) * (k % 4) for k in range(1400)]
    file = DiskFiles(tmp_path).create("x")
    file.write(parts)
    file.sync()
    file.close()
    assert (tmp_path / "x").read_bytes() == b"".join(parts)
    assert max(calls) == MOST_PARTS and (at_once is not None or len(calls) == 3)
