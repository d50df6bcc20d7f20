"""The run store: nothing is lost, whoever writes, reads or dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedpace.errors import ConfigError, StorageError
from fedpace.record import Run
from fedpace.record.store import artifacts
from fedpace.record.store.store import DATABASE, Store
from fedpace.record.store.writer import Writer
from fedpace.sim.observer import StepRecord

X = np.zeros(2)


def record(version: int, **metrics: float) -> StepRecord:
    return StepRecord(version, 0.1 * version, (0, 2, 2), (0, 1, 1), 2**40 + version, 7, metrics)


def begin(store: Store, name: str | None = None, **more: Any) -> Any:
    about: dict[str, Any] = {
        "algorithm": "fedgm",
        "task": "digits",
        "seed": 3,
        "rounds": 5,
        "fingerprint": "f" * 32,
        "experiment": {"algorithm": "Algorithm(...)", "task": "load('digits')"},
        "arguments": ["fedgm", "--task", "digits"],
        "about": {"versions": {"fedpace": "0"}},
    }
    return store.begin(name=name, **(about | more))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_what_goes_in_comes_out(store: Store) -> None:
    entry = begin(store, "night")
    assert entry == store["night"] == store.entries()[0]
    assert (entry.status, entry.arguments, entry.seed) == ("running", ["fedgm", "--task", "digits"], 3)
    records = [record(1, loss=0.1 + 0.2), record(2), record(3, loss=1e-300, accuracy=1 / 3)]
    store.add(entry.id, records)
    assert store.history(entry.id) == records
    [listed] = store.listing()
    assert (listed.name, listed.steps, listed.metrics) == ("night", 3, records[2].metrics)
    store.set(entry.id, "diverged", counters={"solved": 4}, note="lower client_lr")
    ended = store["night"]
    assert (ended.status, ended.counters, ended.note) == ("diverged", {"solved": 4}, "lower client_lr")
    assert ended.ended is not None and ended.ended >= ended.began


def test_the_last_step_and_the_last_evaluated_one_differ(store: Store) -> None:
    run = begin(store).id
    store.add(run, [record(1, loss=2.0), record(2)])
    [listed] = store.listing()
    assert (listed.steps, listed.metrics) == (2, {"loss": 2.0})


def test_runs_without_a_name_get_the_next_free_one(store: Store) -> None:
    assert [begin(store).name for _ in range(3)] == [f"fedgm-digits-{n}" for n in (1, 2, 3)]
    store.delete("fedgm-digits-2")
    assert begin(store).name == "fedgm-digits-4"


@pytest.mark.parametrize(
    "name", ["", "a/", "/a", "a//b", "a/../b", "../up", ".hidden", "two words", "x" * 101]
)
def test_names_that_are_no_file_names_are_refused(store: Store, name: str) -> None:
    with pytest.raises(ConfigError, match="name must be letters, digits"):
        begin(store, name)


def test_a_name_is_given_once(store: Store) -> None:
    begin(store, "night")
    with pytest.raises(ConfigError, match="one that no run has yet; got 'night'"):
        begin(store, "night")


def test_an_unknown_run_is_answered_with_the_nearest(store: Store) -> None:
    with pytest.raises(ConfigError, match="no saved runs"):
        store["nigth"]
    begin(store, "night")
    with pytest.raises(ConfigError, match="did you mean night"):
        store["nigth"]


def test_delete_takes_history_and_files(store: Store) -> None:
    run = begin(store, "night").id
    store.add(run, [record(1)])
    store.folder("night").mkdir(parents=True)
    store.delete("night")
    assert store.entries() == [] and store.history(run) == [] and not store.folder("night").exists()


def test_runs_of_one_experiment_are_found_by_its_fingerprint(store: Store) -> None:
    first, second = begin(store), begin(store)
    begin(store, fingerprint="0" * 32)
    assert [entry.name for entry in store.same("f" * 32)] == [second.name, first.name]
    assert store.same("1" * 32) == []


@pytest.mark.parametrize("there", [0, 2, 5])
def test_a_history_is_rolled_back_to_the_checkpoint_and_filled_up_to_it(store: Store, there: int) -> None:
    """The store may be behind the checkpoint or ahead of it; afterwards it is where the checkpoint is."""
    run = begin(store).id
    records = [record(version) for version in range(1, 6)]
    store.add(run, records[:there])
    store.roll_back(run, records[:3])
    assert store.history(run) == records[:3]


# ------------------------------------------------------------ the writer


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_writer_commits_once_a_second_and_at_the_end(store: Store) -> None:
    clock, run = Clock(), begin(store).id
    writer = Writer(store, run, clock)
    seen = []
    for version in range(1, 8):
        clock.now += 0.4
        writer.recorded(record(version), X)
        seen.append(len(store.history(run)))
    assert seen == [0, 2, 2, 4, 4, 6, 6]  # none waits longer than a second for the next
    writer.flush()
    assert len(store.history(run)) == 7


def test_a_resumed_writer_takes_back_what_was_reported_after_the_checkpoint(store: Store) -> None:
    run = begin(store).id
    store.add(run, [record(version, loss=9.0) for version in range(1, 6)])
    writer = Writer(store, run, Clock())
    kept = [record(1, loss=9.0), record(2, loss=9.0)]
    writer.resumed(kept)
    writer.recorded(record(3, loss=1.0), X)
    writer.flush()
    assert store.history(run) == [*kept, record(3, loss=1.0)]


# ------------------------------------------------------------ several processes


def write_many(folder: str, name: str, count: int) -> None:
    store = Store(folder)
    run = begin(store, name).id
    for version in range(1, count + 1):
        store.add(run, [record(version)])
    store.set(run, "done")


def test_two_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """They also make the database at the same moment."""
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_many, args=(str(tmp_path), f"run{n}", 60)) for n in range(2)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert [each.exitcode for each in writers] == [0, 0]
    store = Store(tmp_path)
    assert sorted(entry.name for entry in store.entries()) == ["run0", "run1"]
    for entry in store.entries():
        assert [step.version for step in store.history(entry.id)] == list(range(1, 61))


def test_the_store_of_a_killed_process_opens(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from test_store import *\n"
        "store = Store(sys.argv[1]); run = begin(store, 'victim').id\n"
        "for version in range(1, 10**6):\n"
        "    store.add(run, [record(version)])\n"
        "    print(version, flush=True)\n"
    )
    here = Path(__file__).parent
    paths = [str(here), str(here.parents[1] / "src")]
    command = [sys.executable, "-c", code, str(tmp_path), *paths]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        committed = [int(victim.stdout.readline()) for _ in range(25)][-1]
        os.kill(victim.pid, signal.SIGKILL)
    store = Store(tmp_path)
    versions = [step.version for step in store.history(store["victim"].id)]
    assert versions == list(range(1, len(versions) + 1)) and len(versions) >= committed
    assert not store.is_alive(store["victim"])


# ------------------------------------------------------------ where it is, and when it cannot be


def test_the_home_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "here"))
    Store()
    assert (tmp_path / "here" / DATABASE).is_file()


def test_the_database_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDPACE_STORE", f"sqlite:///{tmp_path / 'other.sqlite'}")
    begin(Store(tmp_path / "files"), "night")
    assert Store(tmp_path / "elsewhere")["night"].name == "night"


def test_sqlite_is_in_wal_mode(store: Store) -> None:
    with sqlite3.connect(store.home / DATABASE) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="could not be used"):
        Store(tmp_path / "file" / "home")


def test_a_file_that_is_no_database_is_one_line(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"something else entirely, and long enough to be read as a header" * 20)
    with pytest.raises(StorageError, match="file is not a database"):
        Store(tmp_path)


def test_a_url_without_a_driver_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="database URL with an installed driver"):
        Store(tmp_path, "nosuchdatabase://host/name")


def test_a_newer_schema_is_refused(store: Store) -> None:
    with sqlite3.connect(store.home / DATABASE) as connection:
        connection.execute("UPDATE fedpace SET schema = 99")
    connection.close()
    with pytest.raises(ConfigError, match="newer fedpace"):
        Store(store.home)


def test_the_store_of_an_older_fedpace_is_brought_up_to_date(store: Store) -> None:
    run = begin(store, "night").id
    store.add(run, [record(1, loss=1.0)])
    with sqlite3.connect(store.home / DATABASE) as connection:
        connection.execute("ALTER TABLE steps DROP COLUMN real_seconds")
        connection.execute("ALTER TABLE runs DROP COLUMN traffic")
        connection.execute("UPDATE fedpace SET schema = 1")
    connection.close()
    newer = Store(store.home)
    newer.add(run, [record(2)], [0.5])
    assert newer.history(run) == [record(1, loss=1.0), record(2)]
    assert newer.real_seconds(run) == [0.0, 0.5] and newer["night"].traffic == {}


# ------------------------------------------------------------ files beside it


def test_a_run_comes_back_from_the_store(store: Store, run: Run) -> None:
    entry = begin(store, "night", rounds=3, seed=7)
    store.add(entry.id, run.history)
    artifacts.write(store.folder("night"), run)
    store.set(entry.id, "done", counters=run.counters, summary=run.summary, traffic=run.traffic)
    back = artifacts.load(store, store["night"], run.algorithm)
    assert back.to_json() == run.to_json()
    assert back.timeline() == run.timeline()
    assert back.layout == run.layout
    np.testing.assert_array_equal(back.model, run.model, strict=True)


def test_a_run_that_has_no_files_yet_comes_back_too(store: Store) -> None:
    entry = begin(store, "night")
    store.add(entry.id, [record(1, loss=1.0)])
    back = artifacts.load(store, entry)
    assert back.name == "fedgm" and repr(back.algorithm) == "Algorithm(...)"
    assert back.metrics == {"loss": 1.0} and back.model.size == 0 and back.timeline() == []
