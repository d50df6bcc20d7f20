"""Finished runs on disk, one file each: an interrupted reproduction can be resumed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedpace.disk import files
from fedpace.disk.home import home
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results


@dataclass(frozen=True, slots=True)
class FinishedRuns:
    """The outcomes of one experiment in one edition."""

    folder: Path
    choices: Mapping[str, tuple[float, str]] = field(default_factory=dict)  # settings that were tuned before

    @classmethod
    def of(
        cls,
        experiment: str,
        edition: str,
        root: Path | None = None,
        choices: Mapping[str, tuple[float, str]] | None = None,
    ) -> FinishedRuns:
        return cls((root or home() / "reproduce") / experiment / edition, choices or {})

    def path(self, cell: Cell, seed: int) -> Path:
        return self.folder / f"{cell.key}-seed{seed}.json"

    def unfinished(self, cell: Cell, seed: int) -> Path:
        """Where a run that takes long keeps its checkpoints."""
        return self.folder / "unfinished" / f"{cell.key}-seed{seed}"

    def get(self, cell: Cell, seed: int) -> Outcome | None:
        try:
            return Outcome.from_json(self.path(cell, seed).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def put(self, cell: Cell, seed: int, outcome: Outcome) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        files.write(self.path(cell, seed), outcome.to_json().encode())

    def results(self, cells: Iterable[Cell], seeds: int) -> Results:
        """What there is of these cells."""
        found = Results(choices=self.choices)
        for cell in cells:
            for seed in range(seeds if cell.seeds is None else min(seeds, cell.seeds)):
                if (outcome := self.get(cell, seed)) is not None:
                    found.add(cell, seed, outcome)
        return found
