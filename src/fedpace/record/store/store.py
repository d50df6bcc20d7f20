"""The run store: every run with its configuration and its history, in one database; big things in a folder beside it.

SQLite in WAL mode unless a URL says otherwise: readers never wait, writers wait for each other, and a process
that is killed leaves a database that opens.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from fedpace.disk.home import home
from fedpace.disk.locks import OWNER, is_locked, locked
from fedpace.errors import ConfigError, StorageError, require, unknown
from fedpace.record import rows
from fedpace.record.rows import LISTED, NAME, NAMES, Entry, Listed
from fedpace.record.store import owner
from fedpace.record.store.database import add_columns, engine, plain_errors
from fedpace.record.store.tables import ABOUT, ANNOTATIONS, FLEET, METADATA, RUNS, SCHEMA, STEPS
from fedpace.untrusted import Number, fits

if TYPE_CHECKING:
    from fedpace.sim.observer import StepRecord

__all__ = ["DATABASE", "Entry", "Store", "home"]

DATABASE = "runs.sqlite"
SLASH = "+"  # in names of folders; names of runs have none
_LOCK = 0x66656470616365  # "fedpace"


class Store:
    """Runs in a database (`url`; SQLite in `folder` by default) and their files in `folder`."""

    def __init__(self, folder: str | Path | None = None, url: str | None = None) -> None:
        self.home = Path(folder) if folder is not None else home()
        chosen, own = url or os.environ.get("FEDPACE_STORE"), str(self.home / DATABASE)
        self.url = chosen or f"sqlite:///{own}"
        with plain_errors(f"the run store {self.url}"):
            self.home.mkdir(parents=True, exist_ok=True)
            self._engine = engine(sql.make_url(chosen) if chosen else sql.URL.create("sqlite", database=own))
            self._prepare()

    def close(self) -> None:
        self._engine.dispose()

    def folder(self, name: str) -> Path:
        """Where the files of a run are; never a symbolic link, through which others would be written."""
        path = self._path(name)
        if not NAME.fullmatch(name) or path.is_symlink():
            raise StorageError(f"the files of a run must be in a folder with its name; got {str(path)!r}")
        return path

    def _path(self, name: str) -> Path:
        """One folder per run, side by side: none is inside another, whatever they are called."""
        return self.home / "runs" / name.replace("/", SLASH)

    # ------------------------------------------------------------ a run from beginning to end

    def begin(
        self,
        *,
        name: str | None,
        algorithm: str,
        task: str,
        seed: int,
        rounds: int,
        fingerprint: str,
        experiment: Mapping[str, str],
        arguments: Sequence[str] = (),
        about: Mapping[str, object] | None = None,
        settings: str = "",
    ) -> Entry:
        """A new run, under its name or a free one made of algorithm, task and number."""
        row = {
            "status": "running",
            "algorithm": algorithm,
            "task": task,
            "seed": seed,
            "rounds": rounds,
            "fingerprint": fingerprint,
            "experiment": json.dumps(dict(experiment)),
            "arguments": json.dumps(list(arguments)),
            "about": json.dumps(dict(about or {})),
            "settings": settings,
        }
        if name is not None:
            require(bool(NAME.fullmatch(name)), "name", name, NAMES)
            require(not is_locked(self.folder(name)), "name", name, "one that no run of another database has")
        for candidate in [name] if name is not None else self._free_names(f"{algorithm}-{task}"):
            try:
                with self._writing() as connection:
                    connection.execute(sql.insert(RUNS).values(name=candidate, **row))
                shutil.rmtree(self.folder(str(candidate)), ignore_errors=True)  # of a database that is gone
                return self[str(candidate)]
            except IntegrityError:
                continue
        raise ConfigError(
            f"name must be one that no run has yet; got {name!r}: resume it, or delete it first"
        )

    def add(self, run: int, records: Sequence[StepRecord], real_seconds: Sequence[float] = ()) -> None:
        """More of a run's history, and when it happened in real seconds since the run began."""
        times: Sequence[float | None] = real_seconds or [None] * len(records)
        steps = [rows.plain(run, record, at) for record, at in zip(records, times, strict=True)]
        if steps:
            with self._writing() as connection:
                connection.execute(sql.insert(STEPS), steps)

    def roll_back(self, run: int, records: Sequence[StepRecord]) -> None:
        """Make a run's history these records: what came after them goes, what is missing is added."""
        mine = STEPS.c.run == run
        with self._writing() as connection:
            connection.execute(sql.delete(STEPS).where(mine, STEPS.c.version > len(records)))
            there = connection.execute(
                sql.select(sql.func.count()).select_from(STEPS).where(mine)
            ).scalar_one()
            missing = [rows.plain(run, record) for record in records[there:]]
            if missing:
                connection.execute(sql.insert(STEPS), missing)

    def set(self, run: int, status: str, **values: Any) -> None:
        """How a run is, and what is known by now: counters, summary, traffic, note."""
        plain = {
            key: value if isinstance(value, str) else json.dumps(dict(value)) for key, value in values.items()
        }
        ended = None if status == "running" else sql.func.now()
        with self._writing() as connection:
            connection.execute(
                sql.update(RUNS).where(RUNS.c.id == run).values(status=status, ended=ended, **plain)
            )

    def set_fleet(self, run: int, status: str) -> None:
        """The newest status of a deployed run's fleet, in the place of the one before."""
        with self._writing() as connection:
            mine = sql.update(FLEET).where(FLEET.c.run == run).values(status=status)
            if connection.execute(mine).rowcount == 0:
                connection.execute(sql.insert(FLEET).values(run=run, status=status))

    def delete(self, name: str) -> None:
        """Forget a run and its files, also one that is damaged; a symbolic link goes, and what it names stays."""
        run = self.number(name)
        path = self._path(name) if NAME.fullmatch(name) else None
        alive = path is not None and not path.is_symlink() and is_locked(path)
        require(not alive, "a run to delete", name, "one that is not running")
        with self._writing() as connection:
            connection.execute(sql.delete(STEPS).where(STEPS.c.run == run))
            connection.execute(sql.delete(ANNOTATIONS).where(ANNOTATIONS.c.run == run))
            connection.execute(sql.delete(RUNS).where(RUNS.c.id == run))
        if path is not None and path.is_symlink():
            path.unlink()
        elif path is not None:
            shutil.rmtree(path, ignore_errors=True)

    # ------------------------------------------------------------ what is there

    def __getitem__(self, name: str) -> Entry:
        run = self.number(name)
        with self._reading() as connection:
            return rows.entry(connection.execute(sql.select(RUNS).where(RUNS.c.id == run)).one())

    def find(self, name: str) -> Entry | None:
        """The run of this name, if there is one."""
        with self._reading() as connection:
            row = connection.execute(sql.select(RUNS).where(RUNS.c.name == name)).one_or_none()
            return None if row is None else rows.entry(row)

    def names(self, name: str) -> list[str]:
        """The name of a run, or those of the runs of a study, the oldest first; ConfigError if there is neither."""
        inside = RUNS.c.name.startswith(f"{name}/", autoescape=True)
        query = sql.select(RUNS.c.name).where((RUNS.c.name == name) | inside).order_by(RUNS.c.id)
        with self._reading() as connection:
            found = [str(other) for other in connection.execute(query).scalars()]
        mine = [
            other for other in found if other == name or other.startswith(f"{name}/")
        ]  # LIKE ignores case
        if not mine:
            self.number(name)
        return [name] if name in mine else mine

    def extend(
        self,
        run: int,
        rounds: int,
        experiment: Mapping[str, str],
        fingerprint: str,
        arguments: Sequence[str] = (),
    ) -> None:
        """Let a run have more steps than it was begun with; it is another experiment from then on."""
        changed = {
            "rounds": rounds,
            "fingerprint": fingerprint,
            "experiment": json.dumps(dict(experiment)),
            "arguments": json.dumps(list(arguments)),
        }
        with self._writing() as connection:
            connection.execute(sql.update(RUNS).where(RUNS.c.id == run).values(**changed))

    def number(self, name: str) -> int:
        """The run of this name; ConfigError with the nearest name if there is none."""
        with self._reading() as connection:
            run: int | None = connection.execute(sql.select(RUNS.c.id).where(RUNS.c.name == name)).scalar()
            if run is None:
                names = [str(other) for other in connection.execute(sql.select(RUNS.c.name)).scalars()]
                raise unknown("run", name, names) if names else ConfigError(f"no saved runs; got {name!r}")
        return run

    def entries(self) -> list[Entry]:
        """All runs, the oldest first."""
        with self._reading() as connection:
            return [rows.entry(row) for row in connection.execute(sql.select(RUNS).order_by(RUNS.c.id))]

    def listing(self, names: Sequence[str] | None = None) -> list[Listed]:
        """All runs, or these, the oldest first, each with how far it is: one query of histories' ends."""
        newest = sql.select(STEPS).where(STEPS.c.run == RUNS.c.id).order_by(STEPS.c.version.desc()).limit(1)
        evaluated = newest.where(STEPS.c.metrics != "{}")
        taken, metrics = (
            part.with_only_columns(column).scalar_subquery()
            for part, column in ((newest, STEPS.c.version), (evaluated, STEPS.c.metrics))
        )
        ends = (
            sql.func.coalesce(taken, 0).label("steps"),
            sql.func.coalesce(metrics, "{}").label("metrics"),
        )
        shown = [column for column in RUNS.c if column.name in LISTED]
        query = sql.select(*shown, *ends).order_by(RUNS.c.id)
        with self._reading() as connection:
            found = connection.execute(query if names is None else query.where(RUNS.c.name.in_(names)))
            return [rows.listed(row) for row in found]

    def statuses(self) -> dict[str, str]:
        """The status of every run by its name, the oldest first: cheap enough to be asked for every second."""
        query = sql.select(RUNS.c.name, RUNS.c.status).order_by(RUNS.c.id)
        with self._reading() as connection:
            return {str(name): str(status) for name, status in connection.execute(query)}

    def same(self, fingerprint: str) -> list[Entry]:
        """The runs of one experiment, the newest first."""
        query = sql.select(RUNS).where(RUNS.c.fingerprint == fingerprint).order_by(RUNS.c.id.desc())
        with self._reading() as connection:
            return [rows.entry(row) for row in connection.execute(query)]

    def history(self, run: int) -> list[StepRecord]:
        query = sql.select(STEPS).where(STEPS.c.run == run).order_by(STEPS.c.version)
        with self._reading() as connection:
            return [rows.record(row) for row in connection.execute(query)]

    def steps_after(self, run: int, version: int) -> list[tuple[StepRecord, float | None]]:
        """The steps of a run under way beyond `version`, each with its real seconds since the run began."""
        later = (STEPS.c.run == run) & (STEPS.c.version > version)
        query = sql.select(STEPS).where(later).order_by(STEPS.c.version)
        with self._reading() as connection:
            found = connection.execute(query).all()
        return [
            (rows.record(row), row.real_seconds if fits(row.real_seconds, Number) else None) for row in found
        ]

    def fleet(self, name: str | None = None) -> dict[str, object]:
        """The newest status of every fleet by its run's name, or of this run's; as it is in the database."""
        query = sql.select(RUNS.c.name, FLEET.c.status).join(FLEET).order_by(RUNS.c.id)
        query = query if name is None else query.where(RUNS.c.name == name)
        with self._reading() as connection:
            return {str(row.name): row.status for row in connection.execute(query)}

    def real_seconds(self, run: int) -> list[float]:
        """When each step happened, since the run began; a step whose time is unknown has that of the one before."""
        query = sql.select(STEPS.c.real_seconds).where(STEPS.c.run == run).order_by(STEPS.c.version)
        with self._reading() as connection:
            times = [at if fits(at, Number) else None for at in connection.execute(query).scalars()]
        return list(accumulate(times, lambda last, now: last if now is None else now, initial=0.0))[1:]

    @contextmanager
    def working_on(self, entry: Entry) -> Iterator[None]:
        """This process is: the run is alive as long as this lasts, and no longer than the process."""
        folder = self.folder(entry.name)
        with plain_errors(f"the run store {self.url}"):
            folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, OWNER):
            with plain_errors(f"the run store {self.url}"):
                owner.sign(folder)
            try:
                yield
            finally:
                owner.leave(folder)

    def owner(self, entry: Entry | Listed) -> int | None:
        """The process on this machine that is working on the run; None if there is none, or it is not known."""
        return owner.of(self.folder(entry.name)) if self.is_alive(entry) else None

    # ------------------------------------------------------------ what people say of runs

    def annotate(self, name: str, note: str, tags: Sequence[str]) -> None:
        """Put down a note and tags; ConfigError if there is no such run."""
        run, said = self.number(name), {"note": note, "tags": json.dumps(list(tags))}
        with self._writing() as connection:
            there = connection.execute(sql.update(ANNOTATIONS).where(ANNOTATIONS.c.run == run).values(**said))
            if there.rowcount == 0:
                connection.execute(sql.insert(ANNOTATIONS).values(run=run, **said))

    def annotations(self) -> dict[str, tuple[str, list[str]]]:
        """Notes and tags, by the names of their runs; what is no list of texts counts as no tags."""
        query = sql.select(RUNS.c.name, ANNOTATIONS.c.note, ANNOTATIONS.c.tags).join_from(ANNOTATIONS, RUNS)
        with self._reading() as connection:
            return {str(row.name): (str(row.note), rows.tags(row.tags)) for row in connection.execute(query)}

    def state(self, entry: Entry | Listed) -> str:
        """Its status; a run that no process works on any more has died. The others need not be asked about."""
        return "died" if entry.status == "running" and not self.is_alive(entry) else entry.status

    def is_alive(self, entry: Entry | Listed) -> bool:
        """Whether a process on this machine is working on the run: a lock says so, which ends with the process."""
        return is_locked(self.folder(entry.name))

    # ------------------------------------------------------------ small print

    def _prepare(self) -> None:
        with self._writing() as connection:
            if self._engine.dialect.name == "postgresql":  # of two that make the tables at once, one waits
                connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_LOCK)))
            METADATA.create_all(connection)
            schema = connection.execute(sql.select(ABOUT.c.schema)).scalar()
            if schema is None:
                connection.execute(sql.insert(ABOUT).values(schema=SCHEMA))
            elif schema > SCHEMA:
                raise ConfigError(
                    f"{self.url} was written by a newer fedpace (schema {schema}); this one reads up to {SCHEMA}"
                )
            elif schema < SCHEMA:
                add_columns(connection)
                connection.execute(sql.update(ABOUT).values(schema=SCHEMA))

    def _free_names(self, stem: str) -> Iterator[str]:
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip("._-")[:80] or "run"
        with self._reading() as connection:
            taken = connection.execute(sql.select(RUNS.c.name).where(RUNS.c.name.startswith(f"{stem}-")))
            numbers = [int(tail) for name in taken.scalars() if (tail := name[len(stem) + 1 :]).isdigit()]
        first = max(numbers, default=0) + 1
        names = (f"{stem}-{number}" for number in range(first, first + 10_000))
        return (
            name for name in names if not os.path.lexists(self._path(name))
        )  # it may be another database's

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with plain_errors(f"the run store {self.url}"), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with plain_errors(f"the run store {self.url}"), self._engine.connect() as connection:
            yield connection.execution_options(reads=True)
