"""Finished runs on disk, one file each: an interrupted reproduction can be resumed, a committed one extended."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedpace.disk import files
from fedpace.disk.home import home
from fedpace.reproduce import archive
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results


@dataclass(frozen=True, slots=True)
class FinishedRuns:
    """The outcomes of one experiment in one edition."""

    folder: Path
    choices: Mapping[str, tuple[float, str]] = field(default_factory=dict)  # settings that were tuned before
    tuned_on: frozenset[int] = frozenset()  # seeds that chose them: none of these is judged
    committed: Path | None = None  # the archive of a page that is extended

    @classmethod
    def of(
        cls,
        experiment: str,
        edition: str,
        root: Path | None = None,
        choices: Mapping[str, tuple[float, str]] | None = None,
        tuned_on: frozenset[int] = frozenset(),
        committed: Path | None = None,
    ) -> FinishedRuns:
        return cls((root or home() / "reproduce") / experiment / edition, choices or {}, tuned_on, committed)

    def seeds(self, cell: Cell, wanted: int) -> list[int]:
        """The seeds a cell is run for: its first ones where it has so many; else those that chose no setting."""
        if cell.seeds is not None:
            return [cell.first_seed + at for at in range(min(wanted, cell.seeds))]
        fresh = (seed for seed in itertools.count(cell.first_seed) if seed not in self.tuned_on)
        return list(itertools.islice(fresh, wanted))

    def path(self, cell: Cell, seed: int) -> Path:
        return self.folder / f"{archive.run_name(cell.key, seed)}.json"

    def unfinished(self, cell: Cell, seed: int) -> Path:
        """Where a run that takes long keeps its checkpoints."""
        return self.folder / "unfinished" / archive.run_name(cell.key, seed)

    def get(self, cell: Cell, seed: int) -> Outcome | None:
        return self._named(archive.run_name(cell.key, seed))

    def _named(self, run: str) -> Outcome | None:
        try:
            return Outcome.from_json((self.folder / f"{run}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None if self.committed is None else archive.read(self.committed).get(run)

    def put(self, cell: Cell, seed: int, outcome: Outcome) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        files.write(self.path(cell, seed), outcome.to_json().encode())

    def results(self, cells: Iterable[Cell], seeds: int) -> Results:
        """What there is of these cells."""
        found = Results(choices=self.choices)
        for cell in cells:
            key = cell.key  # takes longer than reading a file
            for seed in self.seeds(cell, seeds):
                if (outcome := self._named(archive.run_name(key, seed))) is not None:
                    found.add(cell, seed, outcome)
        return found
