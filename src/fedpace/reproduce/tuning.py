"""Choosing settings: grids, the committed choice among them, and the runs that make it, on seeds of their own."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedpace.disk import files
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.outcome import Evaluation, Outcome
from fedpace.reproduce.results import Results

CHOICES = "tuning.json"
SEEDS = (1000, 1001)  # not among those that are judged
EXTENSIONS = 3  # rates added beyond the ends of a grid, at most
FINALISTS = 3  # settings of a grid of short runs that are run at the judged length

Setting = tuple[float, str]  # server rate, everything else
Merit = tuple[float, ...]  # larger is better, compared in order
Runner = Callable[[Sequence[tuple[Cell, int]]], Iterator[tuple[Cell, int, Outcome]]]


def final_accuracy(last: int) -> Callable[[Outcome], Merit]:
    return lambda outcome: (outcome.final("accuracy", last),)


def soonest(target: float, cost: Callable[[Evaluation], float], last: int = 1) -> Callable[[Outcome], Merit]:
    """The least cost of reaching an accuracy; settings that do not get there by how far they come."""

    def merit(outcome: Outcome) -> Merit:
        reached = outcome.first_at(target)
        return (-math.inf if reached is None else -float(cost(reached)), outcome.final("accuracy", last))

    return merit


@dataclass(frozen=True, slots=True)
class Grid:
    """Settings of one method: rates, each with all of `others`. `cell` makes a run, or None if a rule prunes it.

    Where runs of the grid are shorter than the judged ones, `judged_rounds` says how long those are: the best
    `FINALISTS` settings are then run at that length, and the best of these is the choice.
    """

    name: str
    rates: tuple[float, ...]
    cell: Callable[[float, str], Cell | None]
    merit: Callable[[Outcome], Merit]
    others: tuple[str, ...] = ("",)
    judged_rounds: int | None = None
    seeds: tuple[int, ...] = SEEDS

    def settings(self, rates: Sequence[float] | None = None) -> dict[Setting, Cell]:
        """The settings that are not pruned, with their cells."""
        every = itertools.product(self.rates if rates is None else rates, self.others)
        made = {setting: self.cell(*setting) for setting in every}
        return {setting: cell for setting, cell in made.items() if cell is not None}

    def cells(self) -> list[Cell]:
        return list(self.settings().values())

    def committed(self, known: Results) -> Setting | None:
        """The choice that was made on seeds of its own; None before there is one."""
        return known.choices.get(self.name)

    def chosen(self, known: Results) -> Cell | None:
        """The committed choice; without one the best on the first seed, or None while some have not been run."""
        if (committed := self.committed(known)) is not None:
            return self.cell(*committed)
        cells = self.cells()
        if not known.have(*(cell.name for cell in cells)):
            return None
        return max(cells, key=lambda cell: self.merit(known.of(cell.name)[0]))


@dataclass(slots=True)
class GridSearch:
    """The tuning of one grid: what was tried, and at what cost."""

    grid: Grid
    merits: dict[Setting, Merit] = field(default_factory=dict)  # may begin with those of a committed tuning
    finals: dict[Setting, Merit] = field(default_factory=dict)  # at the judged length
    real_seconds: float = 0.0

    def run(self, runner: Runner) -> Setting:
        """Try all settings; while the best has the smallest or largest rate, try one beyond it."""
        self._try(self._all_rates, runner)
        for _ in range(EXTENSIONS):
            beyond = _beyond(self._all_rates, self.best[0])
            if beyond is None or not self._try([beyond], runner):
                break
        if self.grid.judged_rounds is not None:
            self._final(self.grid.judged_rounds, runner)
        return self.best

    @property
    def best(self) -> Setting:
        deciding = self.finals or self.merits
        return max(deciding, key=lambda setting: deciding[setting])

    def _try(self, rates: Sequence[float], runner: Runner) -> bool:
        """Whether any setting was left to try."""
        settings = self.untried(rates)
        self.merits |= self._measured(settings, runner)
        return bool(settings)

    def untried(self, rates: Sequence[float] | None = None) -> dict[Setting, Cell]:
        every = self.grid.settings(self._all_rates if rates is None else rates)
        return {setting: cell for setting, cell in every.items() if setting not in self.merits}

    def _final(self, rounds: int, runner: Runner) -> None:
        """The best settings at the judged length; the next rate while the best of these is at an end of the grid."""
        ahead = sorted(self.merits, key=lambda setting: self.merits[setting], reverse=True)[:FINALISTS]
        self.finals = self._measured(self._longer(ahead, rounds), runner)
        for _ in range(EXTENSIONS):
            rate, other = self.best
            beyond = _beyond(self._rates, rate)
            further = {} if beyond is None else self._longer([(beyond, other)], rounds)
            if not further:
                break
            self.finals |= self._measured(further, runner)

    def _longer(self, settings: Sequence[Setting], rounds: int) -> dict[Setting, Cell]:
        """Cells of the judged length, of settings that are not pruned."""
        made = {setting: self.grid.cell(*setting) for setting in settings}
        return {
            setting: replace(cell, name=f"final {cell.name}", rounds=rounds)
            for setting, cell in made.items()
            if cell is not None
        }

    @property
    def _all_rates(self) -> list[float]:
        """The rates of the grid, and those that were added to it."""
        return sorted({*self.grid.rates, *self._rates})

    @property
    def _rates(self) -> list[float]:
        return sorted({rate for rate, _ in (*self.merits, *self.finals)})

    def _measured(self, settings: Mapping[Setting, Cell], runner: Runner) -> dict[Setting, Merit]:
        """The mean merit of each setting over the seeds for tuning."""
        by_name = {cell.name: setting for setting, cell in settings.items()}
        found: dict[Setting, list[Merit]] = {}
        for cell, _, outcome in runner(
            [(cell, seed) for seed in self.grid.seeds for cell in settings.values()]
        ):
            found.setdefault(by_name[cell.name], []).append(self.grid.merit(outcome))
            self.real_seconds += outcome.real_seconds
        return {setting: _mean(merits) for setting, merits in found.items()}

    def record(self) -> dict[str, Any]:
        """What is committed: choice, grid and cost."""
        rate, other = self.best
        return {
            "rate": rate,
            "other": other,
            "seeds": list(self.grid.seeds),
            "real_seconds": round(self.real_seconds, 1),
            "at_the_edge": len(self.grid.rates) > 1 and _beyond(self._rates, rate) is not None,
            "grid": [{**row, "key": self.key(row["rate"], row["other"])} for row in _rows(self.merits)],
        } | ({"finals": _rows(self.finals)} if self.finals else {})

    def key(self, rate: float, other: str) -> str:
        """Of a run of this setting: another task, length or rule has another."""
        cell = self.grid.cell(rate, other)
        return "" if cell is None else cell.key


def _beyond(rates: Sequence[float], best: float) -> float | None:
    """The next rate past an end of the (sorted) grid, at the distance of the last two; None inside it."""
    if best not in (rates[0], rates[-1]):
        return None
    if len(rates) == 1:
        return 2 * best
    factor = rates[-1] / rates[-2] if best == rates[-1] else rates[0] / rates[1]
    return float(f"{best * factor:.3g}")


def _rows(merits: Mapping[Setting, Merit]) -> list[dict[str, Any]]:
    return [
        {"rate": rate, "other": other, "merit": [_finite(value) for value in merit]}
        for (rate, other), merit in merits.items()
    ]


def _mean(merits: Sequence[Merit]) -> Merit:
    return tuple(statistics.fmean(values) for values in zip(*merits, strict=True))


def _finite(value: float) -> float | None:
    """JSON has no infinity: a target that was not reached has no number."""
    return value if abs(value) < float("inf") else None


# ------------------------------------------------------------------------------------- the committed file


def read_choices(folder: Path, edition: str) -> dict[str, Setting]:
    """By name of the grid; empty where nothing was tuned."""
    return {name: (row["rate"], row["other"]) for name, row in _read(folder).get(edition, {}).items()}


def seeds_of_choices(folder: Path, edition: str) -> frozenset[int]:
    """The seeds that the committed choices were made on: a claim is not judged on them."""
    return frozenset(seed for row in _read(folder).get(edition, {}).values() for seed in row["seeds"])


def resumed(grid: Grid, folder: Path, edition: str) -> GridSearch:
    """A search that goes on from the committed one: only settings that it lacks are tried, and finals again.

    It starts anew if that was made on other seeds; a setting is dropped that the grid no longer has, or has otherwise,
    or that was tried before settings had keys.
    """
    row = _read(folder).get(edition, {}).get(grid.name)
    if row is None or tuple(row["seeds"]) != grid.seeds:
        return GridSearch(grid)
    search = GridSearch(grid, real_seconds=row["real_seconds"])
    for tried in row["grid"]:
        rate, other = tried["rate"], tried["other"]
        if other in grid.others and tried.get("key") == search.key(rate, other):
            search.merits[rate, other] = _merit(tried["merit"])
    return search


def _merit(values: Sequence[float | None]) -> Merit:
    return tuple(-math.inf if value is None else value for value in values)


def write_choice(folder: Path, edition: str, search: GridSearch) -> Path:
    """Other choices stay."""
    known = _read(folder)
    known.setdefault(edition, {})[search.grid.name] = search.record()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CHOICES
    files.write(path, (json.dumps(known, indent=1, ensure_ascii=False) + "\n").encode())
    return path


def _read(folder: Path) -> dict[str, dict[str, Mapping[str, Any]]]:
    path = folder / CHOICES
    found: dict[str, dict[str, Mapping[str, Any]]] = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    )
    return found
