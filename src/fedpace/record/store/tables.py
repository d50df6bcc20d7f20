"""The tables of the run store. JSON is kept as text, so that every database keeps it the same way."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
)
from sqlalchemy import Text as Long
from sqlalchemy.sql import func

METADATA = MetaData()
SCHEMA = 4  # the version of their columns, which must be nullable or have a default; missing tables are made

ABOUT = Table("fedpace", METADATA, Column("schema", Integer, nullable=False))

RUNS = Table(
    "runs",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", String(100), nullable=False, unique=True),
    Column(
        "status", String(20), nullable=False
    ),  # running | done | diverged | stalled | interrupted | failed
    Column("began", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("ended", DateTime(timezone=True)),
    Column("algorithm", String(100), nullable=False),
    Column("task", String(100), nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("rounds", Integer, nullable=False),
    Column("fingerprint", String(32), nullable=False),
    Column("experiment", Long, nullable=False),  # what decides the outcome, by name
    Column("arguments", Long, nullable=False),  # of `fedpace run`, which makes it again
    Column("about", Long, nullable=False),  # versions, machine, papers
    Column("counters", Long, nullable=False, server_default="{}"),
    Column("summary", Long, nullable=False, server_default="{}"),
    Column("traffic", Long, nullable=False, server_default="{}"),
    Column("note", Long, nullable=False, server_default=""),  # why it ended early
    Column("settings", Long, nullable=False, server_default=""),  # the parameters it was given, for a list
    Index("runs_by_fingerprint", "fingerprint"),
)

STEPS = Table(
    "steps",
    METADATA,
    Column("run", Integer, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("virtual_seconds", Float(53), nullable=False),
    Column("clients", Long, nullable=False),
    Column("staleness", Long, nullable=False),
    Column("bytes_up", BigInteger, nullable=False),
    Column("bytes_down", BigInteger, nullable=False),
    Column("metrics", Long, nullable=False),
    Column("epsilon", Float(53)),  # spent until then, in a private run
    Column("clipped", Integer),  # updates that were scaled down; empty: of a fedpace that did not say
    Column(
        "real_seconds", Float(53)
    ),  # since the run began; no part of its history, which must not depend on it
)

# What people say of runs, on the live page. A table of its own: an older fedpace works beside it.
ANNOTATIONS = Table(
    "annotations",
    METADATA,
    Column("run", Integer, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("note", Long, nullable=False),
    Column("tags", Long, nullable=False),
)

FLEET = Table(
    "fleet",
    METADATA,
    Column("run", Integer, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("status", Long, nullable=False),  # the newest of a deployed run
)
