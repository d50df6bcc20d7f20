from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from fedpace import algorithms
from fedpace.reproduce.cell import Cell, Exact
from fedpace.reproduce.experiment import Finding, Procedure, Reproduction, SettingRow, Table, judged
from fedpace.reproduce.finished_runs import FinishedRuns
from fedpace.reproduce.outcome import Evaluation, Outcome
from fedpace.reproduce.results import Results


def outcome(accuracies: Sequence[float], ended: str = "finished", **more: object) -> Outcome:
    """A run evaluated after every step, each of which took 2 s, 10 bytes up and 5 down."""
    points = tuple(
        Evaluation(t, 2.0 * t, 10 * t, 5 * t, {"accuracy": a, "loss": 1 - a})
        for t, a in enumerate(accuracies, start=1)
    )
    steps = len(points)
    made = Outcome(
        ended=ended,
        steps=steps,
        seconds=2.0 * steps,
        bytes_up=10 * steps,
        bytes_down=5 * steps,
        points=points,
        staleness={0: steps},
    )
    return replace(made, **more)  # type: ignore[arg-type]


def cell(name: str = "a cell", **more: object) -> Cell:
    """Two clients at 1 and 3, one step of size 1/2: x goes 1, 1.5, 1.75, ..."""
    made = Cell(
        name=name,
        algorithm=algorithms.fedavg(client_lr=0.5, steps=1, batch_size=None),
        task=Exact((1.0, 3.0)),
        rounds=3,
        evaluate_every=1,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def results(figures: Mapping[str, Sequence[Outcome]]) -> Results:
    """Outcomes by cell name, one per seed."""
    made = Results()
    for name, runs in figures.items():
        for seed, run in enumerate(runs):
            made.add(cell(name), seed, run)
    return made


@pytest.fixture
def kept(tmp_path) -> FinishedRuns:
    return FinishedRuns(tmp_path / "kept")


@pytest.fixture
def halves() -> Reproduction:
    """Where plain averaging of two quadratics is after three rounds: a first cell, then one that depends on it."""

    def cells(edition: str, known: Results) -> list[Cell]:
        first = cell("first", seeds=1)
        return [first, cell("second", rounds=5)] if known.have("first") else [first]

    def findings(edition: str, known: Results) -> list[Finding]:
        ends = [run.model for run in known.of("first")]
        return [Finding("x is 1.75 | after 3", "1.75", str(ends), judged(ends == [(1.75,)]), "exactly.")]

    return Reproduction(
        name="halves",
        title="Halves",
        source="algebra",
        summary="Half of the way in every round.",
        procedure=Procedure(
            cells,
            findings,
            tables=lambda edition, known: [Table("Ends", ("cell", "x"), [("first", "1.75")])],
            pictures=lambda edition, known: {},
        ),
        settings={"quick": (SettingRow("rounds", "3", "3"),), "full": (SettingRow("rounds", "3", "3"),)},
    )


@pytest.fixture
def nobody() -> Callable[..., None]:
    return lambda *_: None
