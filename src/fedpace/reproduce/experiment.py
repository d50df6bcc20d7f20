"""A reproduction: a paper's claims, the cells to run, and the verdicts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from fedpace.reproduce.cell import Cell
from fedpace.reproduce.comparison import Comparison
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EDITIONS = ("quick", "full")
OWN = "our own claim"  # in the place of what was published


class Verdict(StrEnum):
    REPRODUCED = "reproduced"  # the interval lies on the claimed side
    CONTRADICTED = "contradicted"  # on the other side, or it excludes the claimed size
    UNDECIDED = "undecided"
    INDICATED = "indicated"  # one seed of the full edition points that way
    NOT_TESTED = "not tested"  # the rule hardly ever acted, or rivals are missing
    NOT_RUN = "not run"


class ClaimSource(StrEnum):
    PAPER = "paper"
    OWN = "own"
    TOY = "toy"  # expected from a small study of the specification


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim and its verdict: by its comparisons if it has any (`judgement`), else as given.

    Claims of one `family`, a figure or table, are corrected for their number.
    """

    claim: str
    published: str
    ours: str
    verdict: Verdict = Verdict.UNDECIDED
    note: str = ""
    comparisons: tuple[Comparison, ...] = ()
    family: str = ""
    source: ClaimSource = ClaimSource.PAPER
    seeds: int = 0  # 0: checked exactly, or not judged
    p: float | None = None
    interval: tuple[float, float] | None = None


class Table(NamedTuple):
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class SettingRow(NamedTuple):
    """One line of the comparison of the paper's setting with ours."""

    what: str
    paper: str
    here: str


@dataclass(frozen=True, slots=True)
class Procedure:
    """The functions of an experiment, each of (edition, results so far).

    `cells` is called again whenever all its cells have been run: a grid may choose the settings that are then run
    for every seed. It ends when no new cell is named.
    """

    cells: Callable[[str, Results], Sequence[Cell]]
    findings: Callable[[str, Results], Sequence[Finding]]
    tables: Callable[[str, Results], Sequence[Table]]
    pictures: Callable[[str, Results], Mapping[str, Figure]]
    grids: Callable[[str], Sequence[Grid]] = lambda edition: ()  # what --tune decides, by edition


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """One experiment: its description, and the functions that run and judge it."""

    name: str
    title: str
    source: str  # paper, tables, figures
    summary: str  # a sentence or two for the top of the page
    procedure: Procedure
    settings: Mapping[str, Sequence[SettingRow]]  # by edition
    notes: Mapping[str, str] = field(default_factory=dict)  # by edition: sections in Markdown


def reproduction(
    name: str,
    about: str,
    procedure: Procedure,
    settings: Mapping[str, Sequence[SettingRow]],
    notes: Mapping[str, str] | None = None,
) -> Reproduction:
    """`about` has three paragraphs: title, source and summary."""
    title, source, summary = (" ".join(part.split()) for part in inspect.cleandoc(about).split("\n\n"))
    return Reproduction(
        name=name,
        title=title,
        source=source,
        summary=summary,
        procedure=procedure,
        settings=settings,
        notes=notes or {},
    )


def compared(text: str) -> tuple[SettingRow, ...]:
    """Settings, `what | in the paper | here` on every line; an indented line continues the one above."""
    joined = re.sub(r"\n +", " ", inspect.cleandoc(text))
    return tuple(SettingRow(*line.split(" | ")) for line in joined.splitlines())


def judged(ok: bool) -> Verdict:
    """Of a claim that holds exactly or not at all."""
    return Verdict.REPRODUCED if ok else Verdict.CONTRADICTED


def family_of(name: str) -> str:
    """A figure or table is one family: "Figure 1(c, d)" and "Table 1, iid" are parts of Figure 1 and Table 1."""
    part = re.match(r"(Figure|Table) \d+", name)
    return part[0] if part else name


def not_run(claim: str, published: str, why: str = "") -> Finding:
    return Finding(claim, published, "", Verdict.NOT_RUN, why)


def none_run(findings: Sequence[Finding]) -> list[Finding]:
    """The same claims before their cells have been run."""
    return [replace(not_run(finding.claim, finding.published), source=finding.source) for finding in findings]


def not_tested(claim: str, published: str, ours: str, why: str) -> Finding:
    """The runs are there, but what the claim is about did not happen in them."""
    return Finding(claim, published, ours, Verdict.NOT_TESTED, why)
