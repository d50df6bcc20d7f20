"""Stop rules end a run at the step they name, also a resumed one, and change nothing before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace.algorithms import fedavg, fedbuff
from fedpace.errors import ConfigError
from fedpace.record.run.stopping import Stopping, StopRules, stop_rules
from fedpace.sim import Observer
from fedpace.sim.observer import StepRecord

TASK = fedpace.tasks.quadratics([0.0, 4.0], initial=10.0)
RULE = fedavg(client_lr=0.1, steps=1, batch_size=None)  # x - 2 shrinks by 0.9 in every step


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "home"))


def run(rounds: int = 12, **options: Any) -> fedpace.Run:
    return fedpace.simulate(RULE, TASK, rounds=rounds, **options)


WHOLE = run()


def same_prefix(part: fedpace.Run, steps: int) -> None:
    assert [record.metrics for record in part.history] == [record.metrics for record in WHOLE.history[:steps]]


def test_a_target_ends_the_run_at_the_first_step_that_reaches_it() -> None:
    goal = WHOLE.history[4].metrics["loss"]
    part = run(stop={"loss": goal})
    assert len(part.history) == 5 and part.stopped == f"loss {goal:.4g} reaches {goal:g}"
    same_prefix(part, 5)


def test_a_run_that_takes_all_its_steps_was_not_stopped() -> None:
    part = run(stop={"loss": -1.0, "patience": 50})
    assert part.stopped is None
    same_prefix(part, 12)


def test_virtual_time_and_traffic_are_budgets() -> None:
    assert len(run(stop={"virtual_seconds": 2.5}).history) == 3  # a step takes a second
    each = WHOLE.history[0].bytes_up + WHOLE.history[0].bytes_down
    part = run(stop={"traffic": 4 * each})
    assert len(part.history) == 4 and part.bytes_up + part.bytes_down == 4 * each
    assert len(run(stop={"traffic": f"{4 * each + 1}B"}).history) == 5


def test_where_a_budget_ends_a_run_its_model_is_evaluated() -> None:
    part = run(stop={"virtual_seconds": 3.0}, evaluate_every=100)
    assert part.evaluated == 3 and part.metrics == WHOLE.history[2].metrics


def record(version: int, **metrics: float) -> StepRecord:
    return StepRecord(version, float(version), (0,), (0,), 1, 1, metrics)


def ended(rules: Mapping[str, Any], *metrics: Mapping[str, float], clock: Any = lambda: 0.0) -> int | None:
    """The step at which these metrics end a run."""
    stopping = Stopping(stop_rules(rules), clock)
    for at, each in enumerate(metrics, start=1):
        try:
            stopping.recorded(record(at, **each), np.zeros(1))
        except fedpace.Stop:
            return at
    return None


def test_patience_counts_evaluations_since_the_best() -> None:
    seen = [{"accuracy": 0.1}, {"accuracy": 0.3}, {}, {"accuracy": 0.3}, {"accuracy": 0.2}, {"accuracy": 0.4}]
    assert ended({"patience": 2}, *seen) == 5
    assert ended({"patience": 3}, *seen) is None
    falling = [{"loss": 3.0}, {"loss": 2.0}, {"loss": 1.0}]
    assert ended({"patience": 1}, *falling) is None
    assert ended({"patience": 1}, *reversed(falling)) == 2


def test_real_time_is_a_budget_of_one_execution() -> None:
    ticks = iter([5.0, 9.0, 10.0, 11.0])
    assert ended({"real_seconds": 10}, {}, {}, {}, {}, clock=lambda: next(ticks)) == 3
    assert stop_rules({"real_seconds": 10}).repeatable == {}


@pytest.mark.parametrize(
    ("stop", "message"),
    [
        ({}, "stop must be a dict such as"),
        ("accuracy", "stop must be a dict such as"),
        ({"patience": 0}, "stop: patience must be a whole number >= 1"),
        ({"traffic": "5 apples"}, "must be steps .10., seconds .30s., bytes"),
        ({"traffic": "30s"}, "traffic must be bytes such as 5MB"),
        ({"virtual_seconds": -1}, "virtual_seconds must be a number > 0"),
        ({"accuracy": "high"}, "stop: accuracy must be a number"),
        ({"acuracy": 0.9}, "stop: metric must be one of .*loss.*got 'acuracy'"),
    ],
)
def test_what_is_no_rule_is_refused(stop: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(stop=stop)


def test_metrics_are_needed_to_wait_for_one() -> None:
    with pytest.raises(ConfigError, match="never evaluated"):
        run(stop={"patience": 1}, evaluate_every=None)
    assert len(run(stop={"virtual_seconds": 1.0}, evaluate_every=None).history) == 1


class StopAt(Observer):
    def __init__(self, version: int) -> None:
        self.version = version

    def recorded(self, record: StepRecord, x: Any) -> None:
        if record.version == self.version:
            raise fedpace.Stop("enough for today")


def test_a_resumed_run_stops_where_it_would_have(tmp_path) -> None:
    goal = {"loss": WHOLE.history[7].metrics["loss"]}
    assert len(run(stop=goal, checkpoint=tmp_path, observers=[StopAt(5)]).history) == 5
    part = run(stop=goal, checkpoint=tmp_path)
    assert len(part.history) == 8
    assert run(stop=goal, checkpoint=tmp_path).stopped == part.stopped
    same_prefix(part, 8)
    assert len(run(checkpoint=tmp_path).history) == 12  # without the rule it goes on
    same_prefix(run(checkpoint=tmp_path), 12)


def test_a_saved_run_that_a_rule_ended_is_over_and_another_rule_is_another_run() -> None:
    goal = {"loss": WHOLE.history[3].metrics["loss"]}
    first = run(stop=goal, store="short")
    again = run(stop=goal, store="short")
    assert again.stopped == first.stopped and len(again.history) == 4
    saved = fedpace.runs().open("short")
    assert saved.state == "stopped" and saved.stop == goal
    assert len(saved.resume().history) == 4
    with pytest.raises(ConfigError, match="another stop"):
        run(stop={"virtual_seconds": 2.0}, store="short")


def test_a_comparison_stops_every_run() -> None:
    rows = {"a": RULE, "b": fedbuff(client_lr=0.1, steps=1, batch_size=None, buffer=1, concurrency=2)}
    study = fedpace.compare(rows, TASK, rounds=9, seeds=2, stop={"virtual_seconds": 3.0})
    assert {each.state for own in study.rows.values() for each in own} == {"stopped"}
    assert all(own[0].run.virtual_seconds == 3.0 for own in study.rows.values())


def test_nothing_is_the_rule_that_never_ends_a_run() -> None:
    stopping = Stopping(StopRules(), lambda: 1e9)
    stopping.recorded(record(1, loss=1.0), np.zeros(1))
    assert stopping.spent(1e9, 10**15) == ""
