"""The run store on a real PostgreSQL server, which the test starts in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql

from fedpace.errors import StorageError
from fedpace.record import fleet
from fedpace.record.fleet import FleetStatus
from fedpace.record.store.store import Store
from fedpace.record.store.tables import SCHEMA
from fedpace.sim.observer import StepRecord

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
STEPS = 40


@dataclass(frozen=True)
class Server:
    """No network: a socket in its folder. It refuses to run as root, so then it runs as nobody."""

    programs: Path
    folder: Path

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://fedpace@/postgres?host={self.folder}"

    def call(self, program: str, *words: object) -> None:
        data = ("-D", self.folder / "data")
        command = [str(word) for word in (self.programs / program, *data, *words)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, **self._user())
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        options = f"-c listen_addresses='' -k {self.folder} -c fsync=off"
        self.call("pg_ctl", "start", "-w", "-o", options, "-l", self.folder / "log")

    def stop(self) -> None:
        self.call("pg_ctl", "stop", "-w", "-m", "fast")

    def _user(self) -> dict[str, Any]:
        if os.geteuid():
            return {}
        nobody = pwd.getpwnam("nobody")
        return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def programs() -> Path:
    found = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), shutil.which("initdb")]
    homes = [Path(each) if Path(each).is_dir() else Path(each).parent for each in found if each is not None]
    if not homes:
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    return homes[-1]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'fedpace[postgresql]'")
    bin_folder = programs()
    with tempfile.TemporaryDirectory(prefix="fedpace-pg-") as name:
        made = Server(bin_folder, Path(name))
        if not os.geteuid():
            shutil.chown(name, "nobody")
        made.call("initdb", "-U", "fedpace", "-A", "trust", "--no-sync")
        made.start()
        try:
            yield made
        finally:
            made.stop()


def empty(server: Server) -> None:
    """No tables, as before the first run."""
    engine = sql.create_engine(server.url)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    engine.dispose()


@pytest.fixture
def store(server: Server, tmp_path: Path) -> Iterator[Store]:
    empty(server)
    made = Store(tmp_path, server.url)
    yield made
    made.close()


def record(version: int) -> StepRecord:
    return StepRecord(version, 0.1 * version, (0, 2, 2), (0, 1, 1), 2**40 + version, 7, {"loss": 1 / version})


def begin(store: Store, name: str | None) -> int:
    about = {"algorithm": "fedgm", "task": "digits", "seed": 3, "rounds": STEPS, "fingerprint": "f" * 32}
    return store.begin(name=name, experiment={"task": "digits"}, **about).id


def write(folder: str, url: str) -> None:
    """In a process of its own: one run, a step at a time, under a name that is free."""
    store = Store(folder, url)
    run = begin(store, None)
    for version in range(1, STEPS + 1):
        store.add(run, [record(version)], [0.5 * version])
    store.set(run, "done")


def test_what_the_live_page_asks_for(store: Store) -> None:
    first, second = begin(store, "first"), begin(store, "second")
    store.add(first, [record(1), record(2)], [0.5, 1.0])
    store.set(first, "done")
    assert store.statuses() == {"first": "done", "second": "running"}
    assert [(run.name, run.steps) for run in store.listing(["first"])] == [("first", 2)]
    assert store.steps_after(first, 1) == [(record(2), 1.0)] and store.steps_after(second, 0) == []
    store.annotate("first", "why", ["paper"])
    store.annotate("first", "because", ["a", "b"])
    assert store.annotations() == {"first": ("because", ["a", "b"])}
    store.delete("first")
    assert store.annotations() == {} and store.statuses() == {"second": "running"}


def test_two_writers_lose_nothing(server: Server, tmp_path: Path) -> None:
    """They also make the tables at the same time."""
    empty(server)
    code = "import sys; from test_postgresql import write; write(*sys.argv[1:])"
    paths = os.pathsep.join(map(str, (ROOT / "src", Path(__file__).parent)))
    command = [sys.executable, "-c", code, str(tmp_path), server.url]
    writers = [subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}) for _ in range(2)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    store = Store(tmp_path, server.url)
    assert {run.name: (run.steps, run.status) for run in store.listing()} == {
        "fedgm-digits-1": (STEPS, "done"),
        "fedgm-digits-2": (STEPS, "done"),
    }
    for entry in store.entries():
        assert store.history(entry.id) == [record(version) for version in range(1, STEPS + 1)]
    store.close()


def test_a_server_that_restarts_is_used_again(server: Server, store: Store) -> None:
    run = begin(store, "night")
    store.add(run, [record(1)])
    server.stop()
    try:
        with pytest.raises(StorageError, match="could not be used"):
            store.add(run, [record(2)])
    finally:
        server.start()
    store.add(run, [record(2)])
    assert store.history(run) == [record(1), record(2)]


def test_a_server_that_restarts_between_two_steps_is_not_noticed(server: Server, store: Store) -> None:
    run = begin(store, "night")
    for version in (1, 2, 3):
        store.add(run, [record(version)])
        server.stop()
        server.start()
    assert [step.version for step in store.history(run)] == [1, 2, 3]


def test_a_fleets_status_is_replaced_and_goes_with_its_run(server: Server, store: Store) -> None:
    run = begin(store, "night")
    status = FleetStatus(1.7e9, "night", 3, None, 0.5, 0, 0, 0, 2**40, 7, {"late": 1}, (), ())
    fleet.write(store, run, status)
    fleet.write(store, run, replace(status, step=4))
    assert fleet.latest(store, "night") == replace(status, step=4) and len(fleet.all_latest(store)) == 1
    store.delete("night")
    assert fleet.all_latest(store) == []


def test_a_schema_of_the_previous_version_is_migrated(server: Server, store: Store) -> None:
    run = begin(store, "night")
    store.add(run, [record(1)])
    engine = sql.create_engine(server.url)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE steps DROP COLUMN real_seconds")
        connection.exec_driver_sql("ALTER TABLE runs DROP COLUMN traffic")
        connection.exec_driver_sql("DROP TABLE fleet")
        connection.exec_driver_sql(f"UPDATE fedpace SET schema = {SCHEMA - 1}")
    newer = Store(store.home, server.url)
    newer.add(run, [record(2)], [0.5])
    assert newer.history(run) == [record(1), record(2)]
    assert newer.real_seconds(run) == [0.0, 0.5] and newer["night"].traffic == {}
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT schema FROM fedpace").scalar_one() == SCHEMA
    engine.dispose()
    newer.close()
