"""The runs that a page is made from: none is lost when it is replaced, and commands that make them all."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from fedpace.errors import ConfigError
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.experiment import Reproduction
from fedpace.reproduce.results import Results

if TYPE_CHECKING:
    from fedpace.reproduce.run import Job


def require_no_fewer(
    experiment: Reproduction, edition: str, results: Results, folder: Path, to_come: Collection[Job] = ()
) -> None:
    """Refuse to replace a page by one with fewer runs of a cell that the experiment has.

    `to_come` has yet to be run.
    """
    cells = {cell.name: cell for cell in experiment.procedure.cells(edition, results)} | results.cells
    missing = lost(experiment, edition, results, folder, to_come)
    short = [name for name in missing if name in cells]
    if not short:
        return
    name, here = short[0], folder / experiment.name
    others = f" (and fewer of {len(short) - 1} other cells)" if short[1:] else ""
    only = f'--only "{name}" ' if cells[name].by_name else ""
    raise ConfigError(
        f"the page to replace, {here} ({edition}), must keep its runs; got {missing[name]} fewer of {name!r}{others}, "
        f"neither committed beside it nor run by this command: run them too ({only}--seeds "
        f"{made_from(here, edition)[name]}), or give another folder with --out; finished runs are kept"
    )


def lost(
    experiment: Reproduction, edition: str, results: Results, folder: Path, to_come: Collection[Job] = ()
) -> Counter[str]:
    """How many runs of each cell a page has and a new one would not; runs that chose a setting do not count."""
    runs = {(name, seed) for name, own in results.outcomes.items() for seed in own}
    runs |= {(cell.name, seed) for cell, seed in to_come}
    gone = made_from(folder / experiment.name, edition) - Counter(name for name, _ in runs)
    grids = {cell.name for grid in experiment.procedure.grids(edition) for cell in grid.cells()}
    return Counter({name: count for name, count in gone.items() if name not in grids})


def made_from(here: Path, edition: str) -> Counter[str]:
    """How many runs of each cell a page was made from."""
    path = here / f"{edition}.csv"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return Counter(row["cell"] for row in csv.DictReader(lines))


def commands(experiment: Reproduction, edition: str, results: Results) -> list[str]:
    """What makes all runs of a page: the plain command, and one for each `--only` that other cells need.

    The plain one is left out where it would run cells that the page lacks.
    """
    cells = _judged(experiment, edition, results)
    ran = {cell.name: _seeds_to_ask(cell, results) for cell in cells if results.have(cell.name)}
    plain = {cell.name for cell in cells if not cell.by_name}
    found = [(max(ran[name] for name in plain), "")] if plain and plain <= ran.keys() else []
    apart = {name for name in ran if not found or name not in plain}
    taken = {cell.name for cell in cells} | {grid.name for grid in experiment.procedure.grids(edition)}
    for seeds in sorted({ran[name] for name in apart}, reverse=True):
        wanted = {name for name in apart if ran[name] == seeds}
        others = {cell.name for cell in cells if ran.get(cell.name, 0) < min(seeds, cell.seeds or seeds)}
        found.extend((seeds, f' --only "{text}"') for text in _texts(wanted, others, taken))
    line = f"fedpace reproduce {experiment.name} --edition {edition} --seeds"
    return [f"{line} {seeds}{only}" for seeds, only in found]


def _judged(experiment: Reproduction, edition: str, results: Results) -> list[Cell]:
    """All cells but those of grids whose choice is committed."""
    grids = [grid for grid in experiment.procedure.grids(edition) if grid.name in results.choices]
    tuned = {cell.name for grid in grids for cell in grid.cells()}
    return [cell for cell in experiment.procedure.cells(edition, results) if cell.name not in tuned]


def _seeds_to_ask(cell: Cell, results: Results) -> int:
    """As many as it has; more where it can have no more."""
    ran = len(results.of(cell.name))
    return results.seeds if cell.seeds is not None and cell.seeds <= ran else ran


def _texts(wanted: Collection[str], others: Collection[str], taken: Collection[str]) -> list[str]:
    """A few texts that occur in all wanted names and in none of the others; `taken` are whole names."""
    picked = {
        text: {name for name in wanted if text in name}
        for text in _parts(wanted)
        if text not in taken and not any(text in other for other in others)
    } | {name: {name} for name in sorted(wanted)}
    matched = {text: sum(text in name for name in taken) for text in picked}
    found: list[str] = []
    while left := set(wanted).difference(*(picked[text] for text in found)):
        found.append(max(picked, key=lambda text: (len(picked[text] & left), -matched[text])))
    return found


def _parts(names: Collection[str]) -> list[str]:
    """Successive words of these names, the shortest first; less than a word of four letters says little."""
    words = [name.split() for name in names]
    parts = {" ".join(one[a:b]) for one in words for a in range(len(one)) for b in range(a + 1, len(one) + 1)}
    return sorted((part for part in parts if len(part) > 3), key=lambda part: (len(part), part))
