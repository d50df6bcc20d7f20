"""A step that would not be finite leaves everything as it was, whatever the rules and the length of the vectors."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from tests.server.hand import frame, packed, update

from fedpace.aggregate import Cached, Mean, Mixing, Normalised, Pooled
from fedpace.algorithm import Algorithm
from fedpace.local import SGD
from fedpace.pace import Arrivals, Interrupting, Rounds
from fedpace.server import Server, Skipped, Step
from fedpace.server.invariants import assert_sound
from fedpace.server_opt import Adagrad, Adam, AMSGrad, Momentum, Stages, Yogi
from fedpace.theory import multistage
from fedpace.vector import Vector

LONG = 131072 + 3  # beyond it the compiled kernels take over
OPTS = [
    Momentum(),
    Momentum(0.5, 0.9, 0.7),
    Adam(0.1),
    Yogi(0.1),
    Adagrad(0.1),
    AMSGrad(0.1),
    AMSGrad(0.1, option=2),
    multistage((2, 1), 4, 0.5, 0.5),
    Stages(((1, Adam(0.1)), (2, Adam(0.01)))),
]


def same(one: Any, other: Any) -> None:
    """Equal to the last bit, all the way down."""
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype and np.array_equal(one, other)
    elif hasattr(one, "__dataclass_fields__"):
        for name in one.__dataclass_fields__:
            same(getattr(one, name), getattr(other, name))
    elif isinstance(one, tuple):
        for mine, its in zip(one, other, strict=True):
            same(mine, its)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    else:
        assert one == other


def settled(s: Server) -> Any:
    return deepcopy((s.state.x, s.state.opt, s.state.aggregate, s.version))


def send(s: Server, client: int, session: int, delta: Vector) -> Step | Skipped:
    sent = update(client, session=session, version=s.version, frames={"update": packed(delta)})
    answer = s.receive(sent, 0.0)
    s.dispatch(0.0)
    [step] = answer.steps
    return step


@pytest.mark.parametrize("size", [2, LONG])
@pytest.mark.parametrize("opt", OPTS, ids=repr)
def test_optimizers_stay_as_they_were(opt: Any, size: int) -> None:
    """Two ordinary steps, one that overflows in float32, one more: as if the third had never come."""
    algorithm = Algorithm(local=SGD(0.5, steps=2), pace=Arrivals(1, reuse_model=True), server_opt=opt)
    with_it, without = (Server(algorithm, np.ones(size, np.float32), 2) for _ in range(2))
    fair = np.linspace(-1, 1, size, dtype=np.float32)
    huge = np.zeros(size, np.float32)
    huge[-1] = 3.4e38
    for s in (with_it, without):
        s.dispatch(0.0)
        for session in (1, 2):
            send(s, 0, session, fair)
    before = settled(with_it)
    with_it.state.x.flags.writeable = True  # a model at the edge of its range, which one more update leaves
    with_it.state.x[-1] = 3.4e38
    edge = settled(with_it)
    assert isinstance(send(with_it, 1, 1, huge), Skipped)
    same(settled(with_it), edge)
    assert with_it.counts.steps_not_taken == 1 and with_it.counts.refused == 1
    with_it.state.x[-1] = before[0][-1]
    for s in (with_it, without):
        assert isinstance(send(s, 0, 3, fair), Step)
    same(settled(with_it), settled(without))
    assert_sound(with_it)


@pytest.mark.parametrize(
    "rule", [Mean(), Normalised(), Cached(), Cached(4), Cached(duplicates="sequential")], ids=repr
)
@pytest.mark.parametrize("size", [2, LONG])
def test_aggregates_stay_as_they_were(rule: Any, size: int) -> None:
    """A round whose members overflow together: caches, means and models stay, and the next round starts afresh."""
    algorithm = Algorithm(local=SGD(0.5, steps=2), pace=Rounds(), aggregate=rule)
    s = Server(algorithm, np.zeros(size, np.float32), 2)
    s.dispatch(0.0)
    fair = packed(np.full(size, 0.5, np.float32))
    huge = packed(np.full(size, 3e38, np.float32))
    for client in (0, 1):
        s.receive(update(client, frames={"update": fair}), 0.0)
    s.dispatch(0.0)
    before = settled(s)
    s.receive(update(0, frames={"update": huge}, session=2, version=1), 0.0)
    [step] = s.receive(update(1, frames={"update": huge}, session=2, version=1), 0.0).steps
    assert step == Skipped(1, (0, 1), (2, 2))
    same(settled(s), before)
    assert (s.counts.taken, s.counts.refused, s.unused) == (2, 2, 0)
    s.dispatch(0.0)
    for client in (0, 1):
        answer = s.receive(update(client, frames={"update": fair}, session=3, version=1), 0.0)
    assert isinstance(answer.steps[0], Step)
    np.testing.assert_allclose(s.model, 2 * before[0], rtol=0.2)
    assert_sound(s)


def test_contacts_of_a_step_that_was_not_taken_do_not_count() -> None:
    """FAVANO with `rescale="mean"` remembers how often each client was met."""
    algorithm = Algorithm(local=SGD(0.5, steps=2), pace=Interrupting(2, 1.0), aggregate=Pooled("mean"))
    s = Server(algorithm, np.zeros(2), 2)
    s.dispatch(0.0)
    s.woke(1.0)
    s.dispatch(1.0)
    huge = {"update": frame(1.7e308, 1.7e308)}
    s.receive(update(0, frames=huge, steps=1, a_norm1=1.0), 1.0)
    [step] = s.receive(update(1, frames=huge, steps=1, a_norm1=1.0), 1.0).steps
    assert isinstance(step, Skipped) and s.state.aggregate.contacts == {}


def test_a_rule_without_its_own_check_is_checked_by_the_server() -> None:
    algorithm = Algorithm(
        local=SGD(0.5, steps=2), pace=Arrivals(1), server_opt=Blind(), aggregate=Mixing(0.5)
    )
    s = Server(algorithm, np.zeros(2), 2)
    s.dispatch(0.0)
    [step] = s.receive(update(0, 1e300), 0.0).steps
    assert isinstance(step, Skipped) and not s.model.any()


class Blind(Momentum):
    """A plug-in that does not look at what it computes."""

    checks_itself = False

    def apply(self, x: Vector, delta: Vector, state: Any) -> tuple[Vector, Any]:
        return x + delta * 1e300, state
