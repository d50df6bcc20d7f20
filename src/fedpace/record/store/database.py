"""Connections to the run store's database, and what its errors become."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from fedpace.errors import ConfigError, FedpaceError, StorageError
from fedpace.record.store.tables import METADATA

BUSY_SECONDS = 60.0  # how long a writer waits for another


def engine(url: sql.URL) -> Engine:
    try:
        made = sql.create_engine(url, **_options(url))
    except (SQLAlchemyError, ImportError) as error:
        raise ConfigError(
            f"the run store must be a database URL with an installed driver ({error})"
        ) from None
    if made.dialect.name == "sqlite":
        sql.event.listen(made, "connect", _set_up_sqlite)
        sql.event.listen(made, "begin", _begin_sqlite)
    return made


def _options(url: sql.URL) -> dict[str, Any]:
    busy = {"connect_args": {"timeout": BUSY_SECONDS}}
    return busy if url.get_backend_name() == "sqlite" else {"pool_pre_ping": True}


def _set_up_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions are begun below
    with suppress(sqlite3.OperationalError):  # another process is just doing it, and it lasts
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(
        "PRAGMA synchronous=NORMAL"
    )  # whole after a power cut; checkpoints repair the last second
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_sqlite(connection: Connection) -> None:
    """Writers queue at the beginning: none fails half way because another was faster."""
    reads = connection.get_execution_options().get("reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def add_columns(connection: Connection) -> None:
    """Bring the tables of an older fedpace up to date; what it did not know stays empty."""
    there = sql.inspect(connection)
    for table in METADATA.sorted_tables:
        known = {column["name"] for column in there.get_columns(table.name)}
        for column in table.columns:
            if column.name not in known:
                text = sql.schema.CreateColumn(column).compile(dialect=connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {text}")


@contextmanager
def plain_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (IntegrityError, FedpaceError):
        raise
    except (
        SQLAlchemyError,
        OSError,
        ValueError,
        TypeError,
    ) as error:  # the last two: of columns that are no dates
        reason = getattr(error, "orig", None) or getattr(error, "strerror", None) or error
        raise StorageError(f"{what} could not be used ({reason})") from None
