"""An observer ends a run on purpose: the run is returned, says why, and can be resumed."""

from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace.record import Checkpoints
from fedpace.sim import Observer, Population
from fedpace.tasks import quadratics

TASK = quadratics([[1.0, -2.0], [4.0, 0.5], [3.0, 3.0]])
DEVICES = Population.from_times([1.0, 1.7, 2.9], up_s=0.1)
FEDBUFF = fedpace.algorithms.fedbuff(client_lr=0.25, steps=2, buffer=2, concurrency=3, beta=0.5, nu=1.0)
ROUNDS = 12
HOOKS = ("recorded", "activity", "fate", "began", "trained", "uploading", "sent_up", "stepped", "dispatched")


class Says(Observer):
    """Raises Stop at the n-th call of one hook."""

    def __init__(self, hook: str, at: int) -> None:
        self.calls = 0

        def told(*about: Any, **more: Any) -> None:
            self.calls += 1
            if self.calls == at:
                raise fedpace.Stop(f"{hook} {at}")

        self.hook = hook
        setattr(self, hook, told)

    def wants(self, hook: str) -> bool:
        return hook == self.hook


class Seen(Observer):
    def __init__(self) -> None:
        self.versions: list[int] = []

    def recorded(self, record: Any, x: Any) -> None:
        self.versions.append(record.version)


def run(*observers: Observer, **more: Any) -> fedpace.Run:
    options: dict[str, Any] = {"rounds": ROUNDS, "seed": 1, **more}
    return fedpace.simulate(FEDBUFF, TASK, DEVICES, observers=observers, **options)


def test_a_run_of_all_its_steps_was_not_stopped() -> None:
    assert run().stopped is None
    assert run(Says("recorded", ROUNDS)).stopped is None  # there was nothing left to stop


def test_the_run_so_far_is_returned_with_the_reason() -> None:
    whole, part = run(keep_models=True), run(Says("recorded", 5))
    assert part.stopped == "recorded 5"
    assert part.history == whole.history[:5]
    assert whole.models is not None and np.array_equal(part.model, whole.models[4])


@pytest.mark.parametrize("hook", HOOKS)
def test_other_observers_are_told_whatever_was_stopped_in(hook: str) -> None:
    """Those before and those behind: the history has every step that the server took."""
    before, behind = Seen(), Seen()
    part = run(before, Says(hook, 7), behind)
    assert part.stopped == f"{hook} 7"
    assert 0 < len(part.history) < ROUNDS
    assert before.versions == behind.versions == [record.version for record in part.history]
    assert part.history == run().history[: len(part.history)]


def test_the_first_reason_counts() -> None:
    first, second = Says("recorded", 4), Says("stepped", 4)
    assert run(first, second).stopped == "recorded 4"  # the reporter is told of a step before them
    assert (first.calls, second.calls) == (4, 4)


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("every", [1, 5, "1000s"])
def test_the_same_call_resumes_to_the_same_bits(hook: str, every: int | str, tmp_path: Any) -> None:
    plan = Checkpoints(tmp_path, every)
    stopped = 0
    while (part := run(Says(hook, 9), checkpoint=plan)).stopped is not None:
        stopped += 1
        assert stopped < 40
    whole = run()
    assert stopped >= 1
    assert part.model.tobytes() == whole.model.tobytes()
    assert part.history == whole.history and part.fates == whole.fates
    assert part.activities == whole.activities and part.counters == whole.counters


def test_a_run_can_be_stopped_when_it_is_resumed(tmp_path: Any) -> None:
    run(Says("recorded", 5), checkpoint=tmp_path)
    again = run(Says("resumed", 1), checkpoint=tmp_path)
    assert again.stopped == "resumed 1" and len(again.history) == 5
    assert run(checkpoint=tmp_path).history == run().history


def test_an_observer_that_fails_is_not_one_that_stops() -> None:
    class Fails(Observer):
        def recorded(self, record: Any, x: Any) -> None:
            raise RuntimeError("its own mistake")

    with pytest.raises(RuntimeError, match="its own mistake"):
        run(Fails())
