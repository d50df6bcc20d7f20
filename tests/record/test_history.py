from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedpace.record import History
from fedpace.record.recorder import Activity, Fate, StepRecord

STEP = StepRecord(1, 1.0, (0,), (0,), 1, 1)
TRAIN = Activity(0, 0.0, 1.0, "train", 0, 1)
FATE = Fate(0, 1, "consumed", 1)


class Spy:
    def __init__(self, traces: bool) -> None:
        self.traces = traces
        self.told: list[object] = []

    def step(self, record: StepRecord, x: np.ndarray) -> None:
        self.told.append(record)

    def activity(self, activity: Activity) -> None:
        self.told.append(activity)

    def fate(self, fate: Fate) -> None:
        self.told.append(fate)


def tell(history: History) -> None:
    history.activity(TRAIN)
    history.fate(FATE)
    history.step(STEP, np.ones(2))


def test_models_are_kept_only_when_asked_for() -> None:
    kept, not_kept = History(keep_models=True), History()
    tell(kept)
    tell(not_kept)
    assert kept.models is not None and len(kept.models) == 1
    assert not_kept.models is None


def test_others_are_told_in_order_and_traces_only_if_they_want_them() -> None:
    wants, steps_only = Spy(traces=True), Spy(traces=False)
    tell(History(others=(wants, steps_only)))
    assert wants.told == [TRAIN, FATE, STEP]
    assert steps_only.told == [STEP]


@pytest.mark.parametrize("other", [False, True])
def test_traces_are_asked_for_if_anybody_wants_them_and_kept_only_if_we_do(other: bool) -> None:
    history = History(traces=False, others=[Spy(traces=other)])
    tell(history)
    assert history.traces is other
    assert history.activities == [] and history.fates == []


def test_a_metric_that_is_not_finite_is_left_out() -> None:
    history = History()
    history.step(replace(STEP, metrics={"loss": math.nan, "spread": math.inf, "accuracy": 0.5}), np.ones(2))
    assert history.steps[0].metrics == {"accuracy": 0.5}
