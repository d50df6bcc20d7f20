from __future__ import annotations

import numpy as np

from fedpace.record import History
from fedpace.sim.observer import HOOKS, Activity, Fate, StepRecord

STEP = StepRecord(1, 1.0, (0,), (0,), 1, 1)
TRAIN = Activity(0, 0.0, 1.0, "train", 0, 1)
FATE = Fate(0, 1, "consumed", 1)


def tell(history: History) -> None:
    history.activity(TRAIN)
    history.fate(FATE)
    history.recorded(STEP, np.ones(2))


def test_models_are_kept_only_when_asked_for() -> None:
    kept, not_kept = History(keep_models=True), History()
    tell(kept)
    tell(not_kept)
    assert kept.models is not None and len(kept.models) == 1
    assert not_kept.models is None


def test_activities_and_fates_are_asked_for_and_kept_only_with_traces() -> None:
    with_traces, without = History(), History(traces=False)
    assert [hook for hook in HOOKS if with_traces.wants(hook)] == ["begun", "recorded", "activity", "fate"]
    assert [hook for hook in HOOKS if without.wants(hook)] == ["begun", "recorded"]
    tell(with_traces)
    assert (with_traces.steps, with_traces.activities, with_traces.fates) == ([STEP], [TRAIN], [FATE])
