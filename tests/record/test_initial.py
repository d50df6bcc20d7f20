"""The initial model is evaluated, kept and shown; compilation and warm-up are no part of a run's seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedpace
from fedpace.errors import Stop
from fedpace.record import Checkpoints
from fedpace.sim import Observer

TASK = fedpace.tasks.quadratics([4, 8, 16])
ALGORITHM = fedpace.algorithms.fedavg(client_lr=0.5, steps=1)
# x = 0 between 4, 8 and 16: (16 + 64 + 256) / 6, and 28/3 away from their mean
INITIAL = {"loss": 56.0, "distance": pytest.approx(28 / 3, rel=1e-15)}


def test_the_initial_model_is_measured_and_the_history_stays_as_it_is() -> None:
    run = fedpace.simulate(ALGORITHM, TASK, rounds=3)
    assert run.initial_metrics == INITIAL
    assert [record.version for record in run.history] == [1, 2, 3]


def test_nothing_is_measured_where_nothing_is_to_be_evaluated() -> None:
    assert fedpace.simulate(ALGORITHM, TASK, rounds=3, evaluate_every=None).initial_metrics == {}


def test_curves_begin_at_step_zero() -> None:
    axes = fedpace.simulate(ALGORITHM, TASK, rounds=2).plot().axes
    steps, seconds, traffic = (axis.lines[0].get_xydata()[0].tolist() for axis in axes[:3])
    assert steps == seconds == traffic == [0.0, 56.0]


def test_own_metrics_are_drawn_below_the_loss() -> None:
    figure = fedpace.simulate(ALGORITHM, TASK, rounds=2).plot()
    assert [axes.get_ylabel() for axes in figure.axes[::3]] == ["loss", "distance"]


class Leave(Observer):
    def recorded(self, record, x) -> None:  # type: ignore[no-untyped-def]
        if record.version == 2:
            raise Stop("enough")


def test_a_resumed_run_keeps_them(tmp_path: Path) -> None:
    class Once(type(TASK)):  # type: ignore[misc]
        """Knows how often it was asked about the model it began with."""

        asked = 0

        def evaluate(self, x):  # type: ignore[no-untyped-def]
            self.asked += not x.any()
            return super().evaluate(x)

    task = Once(TASK.centers, TASK.curvatures, TASK.weights, TASK.initial(0))
    plan = Checkpoints(tmp_path, every=1)
    left = fedpace.simulate(ALGORITHM, task, rounds=4, checkpoint=plan, observers=[Leave()])
    assert (left.stopped, left.initial_metrics) == ("enough", INITIAL)
    run = fedpace.simulate(ALGORITHM, task, rounds=4, checkpoint=plan)
    assert run.initial_metrics == INITIAL and task.asked == 1
    assert len(run.history) == 4


class Slow:
    """A quadratic that takes a second to compile, on a clock moved by hand."""

    def __init__(self, clock: list[float]) -> None:
        self.clock, self._compiled = clock, False

    def __getattr__(self, name: str):  # type: ignore[no-untyped-def]
        return getattr(TASK, name)

    def warm_up(self, local) -> None:  # type: ignore[no-untyped-def]
        if not self._compiled:
            self.clock[0], self._compiled = self.clock[0] + 1.0, True

    def solve(self, request):  # type: ignore[no-untyped-def]
        self.warm_up(request.local)
        self.clock[0] += 0.25
        return TASK.solve(request)


def test_compilation_is_counted_apart_from_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = [100.0]
    monkeypatch.setattr("fedpace.experiment.time.perf_counter", lambda: clock[0])
    task = Slow(clock)
    first, second = (fedpace.simulate(ALGORITHM, task, rounds=2) for _ in range(2))
    kept = fedpace.simulate(ALGORITHM, Slow(clock), rounds=2, checkpoint=tmp_path)
    assert [run.summary["real_seconds"] for run in (first, second, kept)] == [6 * 0.25] * 3
    assert [run.summary["warm_up_seconds"] for run in (first, second, kept)] == [1.0, 0.0, 1.0]
