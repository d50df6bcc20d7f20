"""An experiment: what a paper says, what to run, and how to judge what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from fedpace.reproduce.cell import Cell
from fedpace.reproduce.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EDITIONS = ("quick", "full")
OWN = "our own claim"  # in the place of what was published


class Verdict(StrEnum):
    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    NOT_TESTABLE = "not testable here"
    NOT_RUN = "not run here"


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim and what became of it."""

    claim: str
    published: str
    ours: str
    verdict: Verdict
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One line of what is the same as in the paper and what is not."""

    what: str
    paper: str
    here: str


Cells = Callable[[str, Results], Sequence[Cell]]  # edition, what is known so far -> what is to be run


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """All of one experiment.

    `cells` is asked again whenever everything it named has been run, with the results: a grid may choose the
    settings that are then run for every seed. It ends when nothing new is named.
    """

    name: str
    title: str
    source: str  # paper, tables, figures
    summary: str  # a sentence or two for the top of the page
    cells: Cells
    findings: Callable[[str, Results], Sequence[Finding]]
    tables: Callable[[str, Results], Sequence[Table]]
    pictures: Callable[[str, Results], Mapping[str, Figure]]
    settings: Mapping[str, Sequence[SettingRow]]  # by edition
    notes: Mapping[str, str] = field(default_factory=dict)  # by edition: what was tried, what to make of it


def judged(ok: bool) -> Verdict:
    return Verdict.REPRODUCED if ok else Verdict.NOT_REPRODUCED


def not_run(claim: str, published: str, why: str = "") -> Finding:
    return Finding(claim, published, "", Verdict.NOT_RUN, why)
