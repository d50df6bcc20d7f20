"""The server driven by hand: every message, every refusal, no clock."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from fedpace.aggregate import Mixing, Pooled
from fedpace.algorithm import Algorithm
from fedpace.errors import ConfigError, DivergedError
from fedpace.link import Dense, Difference, Plain, Quantize, ResyncError, TopK
from fedpace.link import frame as wire
from fedpace.local import SGD, Scaffold
from fedpace.pace import Arrivals, Buffered, Interrupting, Polled, Replayed, Rounds, Scripted
from fedpace.pace.protocol import Pace
from fedpace.server import Announce, Ask, Deliver, Receipt, Server, Stop, Update
from fedpace.server_opt import AMSGrad, Momentum
from fedpace.vector import Vector

RNG = np.random.default_rng(0)  # dense frames draw nothing


def server(pace: Pace, clients: int = 3, **rules: Any) -> Server:
    algorithm = Algorithm(pace=pace, local=SGD(lr=0.5, steps=2), **rules)
    return Server(algorithm, np.zeros(2), clients, cycle_s=2.0, last=rules.pop("last", None))


def update(client: int, value: float = 1.0, session: int = 1, version: int = 0, **changes: Any) -> Update:
    frames = {"update": Dense().encode(np.full(2, value), RNG)}
    return replace(Update(client, session, version, version, 2, 2.0, 1.0, frames), **changes)


def deliver(to: Server, *updates: Update) -> list[Receipt]:
    return [to.receive(each, 0.0) for each in updates]


# ---------------------------------------------------------------- the journey of an update


def test_a_round_from_dispatch_to_step() -> None:
    s = server(Rounds())
    assert s.dispatch(0.0) == [Deliver(client, 0, 0) for client in range(3)]
    assert s.dispatch(0.0) == []  # nothing more to do until somebody answers
    *held, last = deliver(s, update(2, 3.0), update(0, 1.0), update(1, 2.0))
    assert [receipt.steps for receipt in held] == [(), ()]
    [step] = last.steps
    assert (step.version, step.clients, step.sessions, step.staleness) == (1, (2, 0, 1), (1, 1, 1), (0, 0, 0))
    assert step.x.tolist() == [2.0, 2.0] and not step.x.flags.writeable
    assert s.state.counts.taken == 3
    assert s.dispatch(0.0) == [Deliver(client, 1, 1) for client in range(3)]


def test_orders_become_messages() -> None:
    assert server(Arrivals(2)).dispatch(0.0) == [Announce(0, 0)]
    assert server(Polled(2, Scripted([[1, 1]]))).dispatch(0.0) == [Announce(0, 0), Ask(1)]
    assert server(Replayed(2, select=Scripted([[0]]), delays=[[0]])).dispatch(0.0) == [Deliver(0, 0, 0)]
    ticking = server(Interrupting(1, 2.0, select=Scripted([[2]])))
    assert ticking.dispatch(0.0) == [Announce(0, 0)]
    assert ticking.state.wake_at == 2.0
    assert ticking.woke(2.0) == () and ticking.state.wake_at is None
    assert ticking.dispatch(2.0) == [Stop(2, 0)]


def test_no_step_is_taken_after_the_last() -> None:
    s = Server(Algorithm(pace=Arrivals(1), local=SGD(lr=0.5, steps=1)), np.zeros(2), 3, last=1)
    first, second = deliver(s, update(0), update(1))
    assert len(first.steps) == 1 and second.steps == ()
    assert s.state.version == 1


def test_a_second_delivery_waits_for_the_next_step_and_may_complete_it() -> None:
    """Arrivals(distinct): what is kept is offered after the step, in order, and the version it names stays held."""
    s = server(Arrivals(2, distinct=True))
    receipts = deliver(s, update(0, 1.0), update(0, 2.0, session=2), update(0, 4.0, session=3))
    assert [receipt.accepted for receipt in receipts] == [True] * 3
    assert s.state.versions.holders == {0: 2}
    [done] = deliver(s, update(1, 3.0))[0].steps
    assert (done.clients, done.sessions, done.x[0]) == ((0, 1), (1, 1), 2.0)
    assert s.state.members.clients == [0] and len(s.state.kept) == 1
    two = deliver(s, update(2, 6.0, version=1))[0].steps
    assert [(step.version, step.sessions, step.staleness) for step in two] == [(2, (2, 1), (1, 0))]
    assert s.state.versions.holders == {} and s.state.kept == []


def test_kept_updates_can_make_several_steps_at_once() -> None:
    """Two clients have delivered twice each when the third, whom the step waited for, leaves."""
    s = server(Arrivals(3, distinct=True))
    deliver(s, update(0), update(0, session=2), update(1), update(1, session=2))
    assert s.left(2) == ()
    s.dispatch(5.0)
    assert s.state.wake_at == 5.0
    steps = s.woke(5.0)
    assert [(step.clients, step.sessions) for step in steps] == [((0, 1), (1, 1)), ((0, 1), (2, 2))]
    assert s.state.kept == [] and s.state.versions.holders == {}


# ---------------------------------------------------------------- refusals


def test_the_same_session_twice_is_a_duplicate() -> None:
    s = server(Rounds())
    s.dispatch(0.0)
    _, again = deliver(s, update(0), update(0))
    assert (again.accepted, again.reason) == (False, "client 0: session 1 came twice")
    assert s.state.counts.duplicates == 1 and s.state.counts.taken == 1


def test_an_answer_nobody_waits_for_is_refused_and_not_remembered() -> None:
    s = server(Rounds(1, Scripted([[0], [1]])))
    s.dispatch(0.0)
    [receipt] = deliver(s, update(2))
    assert receipt.reason == "client 2: late for round 0" and s.state.counts.refused == 1
    assert 2 not in s.state.heard


@pytest.mark.parametrize(
    "changes",
    [
        {"frames": {"update": b"junk"}},
        {"frames": {"update": Dense().encode(np.zeros(3), RNG)}},
        {"version": 7},
        {"version": -2},
        {"steps": -1},
        {"a_norm1": math.nan},
        {"steps": 2, "a_norm1": 0.0},
        {"samples": -1.0},
    ],
)
def test_senseless_updates_are_refused_and_free_their_place(changes: dict[str, Any]) -> None:
    s = server(Buffered(1, 1, select=Scripted([[0], [1]])))
    s.dispatch(0.0)
    [receipt] = deliver(s, update(0, **changes))
    assert not receipt.accepted and not receipt.resync
    assert s.state.counts.malformed == 1
    assert s.dispatch(0.0) == [Deliver(1, 0, 0)]


@pytest.mark.parametrize("client", [-1, 3])
def test_an_unknown_client_is_refused(client: int) -> None:
    s = server(Interrupting(1, 2.0))
    s.dispatch(0.0)
    [receipt] = deliver(s, update(client))
    assert receipt.reason == f"client {client}: there are 3 clients"
    assert s.state.pace.restart == []


@pytest.mark.parametrize("opt", [Momentum(), Momentum(0.5, 0.9, 0.9), AMSGrad(0.1)], ids=repr)
@pytest.mark.parametrize(
    "codec", [Dense("fp16"), Dense("fp64"), TopK(1.0, "bf16"), Quantize(4, values="fp16")], ids=repr
)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_model_keeps_its_type_whatever_the_wire_has(opt: Any, codec: Any, kind: Any) -> None:
    rule = Algorithm(local=SGD(0.1, steps=1), up=codec, server_opt=opt)
    s = Server(rule, np.zeros(2, kind), 1)
    s.dispatch(0.0)
    [receipt] = deliver(s, update(0, frames={"update": codec.encode(np.ones(2, kind), RNG)}))
    assert receipt.steps[0].x.dtype == kind and s.state.x.any()


def not_finite_frame() -> bytes:
    """What no sender of ours makes: a dense frame with NaN in it."""
    good = Dense().encode(np.array([1.5, 2.5]), RNG)
    return wire.sealed(good.replace(np.float64(1.5).tobytes(), np.float64("nan").tobytes()))


@pytest.mark.parametrize("frames", [{}, {"update": not_finite_frame()}])
def test_a_failed_session_is_counted_and_frees_its_place(frames: dict[str, bytes]) -> None:
    """An empty update says so; NaN that comes all the same is noticed."""
    s = server(Buffered(2, 2, select=Scripted([[0, 1], [2]])))
    s.dispatch(0.0)
    [receipt] = deliver(s, update(0, frames=frames))
    assert receipt.reason == "client 0: update is not finite" and s.state.counts.not_finite == 1
    assert s.dispatch(0.0) == [Deliver(2, 0, 0)]


def test_a_single_failed_session_never_ends_a_run_but_two_in_a_row_do_where_one_makes_a_step() -> None:
    s = server(Buffered(1, 1, select=Scripted([[0], [1]])))
    s.dispatch(0.0)
    assert not s.receive(update(0, frames={}), 0.0).accepted
    s.dispatch(0.0)
    with pytest.raises(DivergedError, match="the last 2 updates were not finite, at step 0"):
        s.receive(update(1, frames={}), 0.0)


def test_a_good_update_in_between_starts_the_count_anew() -> None:
    s = server(Rounds())
    s.dispatch(0.0)
    deliver(s, update(0, frames={}), update(1), update(2, frames={}))
    assert (s.state.version, s.state.bad_in_a_row, s.state.counts.not_finite) == (1, 1, 2)


def test_a_round_in_which_all_fail_is_diverged() -> None:
    s = server(Rounds())
    s.dispatch(0.0)
    deliver(s, update(0, frames={}), update(1, frames={}))
    with pytest.raises(DivergedError, match="the last 3 updates"):
        s.receive(update(2, frames={}), 0.0)


def test_a_model_that_is_not_finite_ends_the_run() -> None:
    s = server(Arrivals(1), server_opt=Momentum(lr=1e300))
    with pytest.raises(DivergedError, match="not finite after step 1"), np.errstate(over="ignore"):
        s.receive(update(0, 1e300), 0.0)


@dataclass(frozen=True)
class Remembering(Plain):
    """An uplink whose receiver lost what it held."""

    window = 2

    def init(self, size: int, dtype: Any) -> str:
        return "nothing yet"

    def receive(self, frame: bytes, state: Any, size: int) -> tuple[Vector, Any]:
        if state == "lost":
            raise ResyncError("builds on a value that is not held")
        return super().receive(frame, None, size)[0], "something"


def test_a_frame_that_builds_on_a_forgotten_value_asks_for_a_resync() -> None:
    s = server(Buffered(1, 1), up=Remembering())
    s.dispatch(0.0)
    [client] = s.state.pace.active
    s.state.up[client] = "lost"
    receipt = s.receive(update(client), 0.0)
    assert receipt.resync and not receipt.accepted
    assert s.state.counts.resyncs == 1 and client not in s.state.up
    s.dispatch(0.0)
    [client] = s.state.pace.active
    assert s.receive(update(client, session=2), 0.0).accepted
    assert s.state.up[client] == "something"


# ---------------------------------------------------------------- models


def test_a_model_for_everybody_is_packed_once() -> None:
    s = server(Rounds())
    first = s.retrieve(0, 0, 0)
    assert s.retrieve(1, 0, 0) is first
    assert (first.version, first.round, first.context.clients_per_step) == (0, 0, 3)
    assert first.size_bytes == len(first.frames["model"]) == 20 + 2 * 8
    s.dispatch(0.0)
    deliver(s, *(update(client) for client in range(3)))
    assert s.retrieve(0, 1, 1) is not first


def test_a_model_with_a_reference_per_client_is_packed_for_each_of_them() -> None:
    """Two clients meet the server for the first time, the first one twice."""
    s = server(Rounds(), down=Difference(Dense(), first="seed"))
    first, other, again = s.retrieve(0, 0, 0), s.retrieve(1, 0, 0), s.retrieve(0, 0, 0)
    assert first is not other
    assert [sorted(parcel.frames) for parcel in (first, other, again)] == [["model", "seed"]] * 2 + [
        ["model"]
    ]


def test_a_correction_travels_beside_the_model_and_beside_the_update() -> None:
    s = server(Rounds(), correction=Scaffold())
    assert set(s.retrieve(0, 0, 0).frames) == {"model", "control"}
    s.dispatch(0.0)
    control = Dense().encode(np.array([3.0, 0.0]), RNG)
    for client in range(3):
        frames = {"update": Dense().encode(np.ones(2), RNG), "control": control}
        s.receive(update(client, frames=frames), 0.0)
    assert s.state.control.c.tolist() == [3.0, 0.0]
    s.dispatch(0.0)
    without = s.receive(update(0, session=2, version=1), 0.0)
    assert not without.accepted and s.state.counts.malformed == 1


def test_step_norms_are_kept_for_links_that_ask_for_them() -> None:
    s = server(Arrivals(1), up=Remembering())
    for session in (1, 2, 3):
        s.receive(update(0, float(session), session=session), 0.0)
    assert s.state.step_norms == (18.0, 8.0)  # ||(3, 3)||^2, ||(2, 2)||^2: newest first, two of them
    assert s.retrieve(0, 3, 3).context.step_norms == (18.0, 8.0)


def test_a_start_model_that_nobody_held_is_taken_for_the_newest() -> None:
    """Mixing measures against the start model; a driver that lets go of it too early loses only the correction."""
    s = server(Arrivals(1), aggregate=Mixing(alpha=0.5))
    s.receive(update(0, 4.0), 0.0)
    assert s.state.x[0] == 2.0 and list(s.state.versions.models) == [1]
    s.receive(update(1, 4.0), 0.0)
    assert s.state.x[0] == 4.0


# ---------------------------------------------------------------- who is there


def test_who_leaves_is_waited_for_no_longer_and_who_joins_is_drawn_again() -> None:
    s = server(Rounds())
    s.dispatch(0.0)
    deliver(s, update(0), update(1))
    [step] = s.left(2)
    assert step.clients == (0, 1)
    assert s.dispatch(0.0) == [Deliver(0, 1, 1), Deliver(1, 1, 1)]
    s.joined(2)
    assert s.state.absent == set()


def test_a_server_needs_a_client() -> None:
    with pytest.raises(ConfigError, match="clients must be a whole number >= 1; got 0"):
        server(Rounds(), clients=0)


def test_what_an_update_will_be_taken_for_can_be_asked_without_consequences() -> None:
    s = server(Rounds())
    assert s.used(update(0, 3.0)).tolist() == [3.0, 3.0]
    assert (s.state.heard, s.state.counts.taken) == ({}, 0)
    assert update(0).size_bytes == 20 + 2 * 8


def test_mutual_averaging_sends_whole_models() -> None:
    """QuAFL: version -1, measured from zero, never stale: x <- (x + sum Y) / (s + 1)."""
    pace = Interrupting(2, 1.0, averaging=True, select=Scripted([[0, 1]]))
    s = server(pace, aggregate=Pooled(None))
    s.dispatch(0.0)
    s.woke(1.0)
    assert s.dispatch(1.0) == [Stop(0, 0), Stop(1, 0)]
    [step] = deliver(s, update(0, 3.0, version=-1), update(1, 6.0, version=-1))[1].steps
    assert (step.x[0], step.staleness) == (3.0, (0, 0))
