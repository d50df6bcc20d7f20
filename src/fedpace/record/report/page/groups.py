"""Runs of a page, grouped: those of one group differ in their seed only, or in chance, and share a colour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedpace.record.report.page import svg
from fedpace.record.report.page.text import escape
from fedpace.record.run.run import Run


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run and its stored configuration."""

    label: str
    run: Run
    clients: int  # of the task, including those that never participated
    state: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)  # configuration, versions, machine, by name
    papers: Sequence[Any] = ()  # those to cite
    group: str = ""  # empty: the run is a group of its own
    partition: Mapping[str, Any] | None = None  # samples per client, and per client and class


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs that differ in their seed only; or not even in that, where chance is not the seed's alone."""

    label: str
    colour: int
    runs: Sequence[StoredRun]

    @property
    def first(self) -> StoredRun:
        return self.runs[0]


def grouped(runs: Sequence[StoredRun]) -> list[RunGroup]:
    found: dict[str, list[StoredRun]] = {}
    for stored in runs:
        found.setdefault(stored.group or stored.label, []).append(stored)
    return [RunGroup(label, at % svg.COLOURS, own) for at, (label, own) in enumerate(found.items())]


def repeat_word(runs: Iterable[StoredRun]) -> str:
    """What the runs of a group are called."""
    return "seed" if len({stored.run.seed for stored in runs}) > 1 else "repeat"


# ------------------------------------------------------------ pieces of HTML


def section(title: str, inside: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{inside}</section>"


def card(title: str, inside: str, *, readout: bool = False) -> str:
    below = '<div class="readout"></div>' if readout else ""
    return f'<div class="card"><h3>{escape(title)}</h3>{inside}{below}</div>'


def cards(inside: Iterable[str]) -> str:
    return f'<div class="grid-of-cards">{"".join(inside)}</div>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
