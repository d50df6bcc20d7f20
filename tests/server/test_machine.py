"""The server driven by hand: every message, every refusal, no clock."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.server.hand import RNG, begun, deliver, frame, not_finite_frame, server, step_of, update

from fedpace.aggregate import Pooled
from fedpace.algorithm import Algorithm
from fedpace.errors import ConfigError
from fedpace.link import Dense, Difference, Plain, Quantize, ResyncError, TopK
from fedpace.local import SGD, Scaffold
from fedpace.pace import Arrivals, Buffered, Interrupting, Polled, Replayed, Rounds, Scripted
from fedpace.server import Broadcast, Interrupt, Poll, Send, Server, Step
from fedpace.server.invariants import assert_sound
from fedpace.server_opt import AMSGrad, Momentum
from fedpace.vector import Vector

# ---------------------------------------------------------------- the journey of an update


def test_a_round_from_dispatch_to_step() -> None:
    s = server(Rounds())
    assert s.dispatch(0.0) == [Send(client, 0, 0) for client in range(3)]
    assert s.dispatch(0.0) == []  # nothing more to do until somebody answers
    *held, last = deliver(s, update(2, 3.0), update(0, 1.0), update(1, 2.0))
    assert [answer.steps for answer in held] == [(), ()]
    step = step_of(last)
    assert (step.version, step.clients, step.sessions, step.staleness) == (1, (2, 0, 1), (1, 1, 1), (0, 0, 0))
    assert step.x.tolist() == [2.0, 2.0] and not step.x.flags.writeable
    assert s.counts.taken == 3 and s.model is step.x and s.version == 1
    assert s.dispatch(0.0) == [Send(client, 1, 1) for client in range(3)]


def test_orders_have_their_version_and_round_filled_in() -> None:
    assert server(Arrivals(2)).dispatch(0.0) == [Broadcast(0, 0)]
    assert server(Polled(2, Scripted([[1, 1]]))).dispatch(0.0) == [Broadcast(0, 0), Poll(1)]
    assert server(Replayed(2, select=Scripted([[0]]), delays=[[0]])).dispatch(0.0) == [Send(0, 0, 0)]
    ticking = server(Interrupting(1, 2.0, select=Scripted([[2]])))
    assert ticking.dispatch(0.0) == [Broadcast(0, 0)]
    assert ticking.wake_at == 2.0
    assert ticking.woke(2.0) == () and ticking.wake_at is None
    assert ticking.dispatch(2.0) == [Interrupt(2, 0, 0)]


def test_a_past_model_is_ordered_by_its_version_and_the_present_round() -> None:
    s = begun(Replayed(2, select=Scripted([[0], [0]]), delays=[[0], [1]]))
    deliver(s, update(0))
    assert s.dispatch(0.0) == [Send(0, version=0, round=1)]


def test_no_step_is_taken_after_the_last() -> None:
    s = begun(Arrivals(1), last=1)
    first, second = deliver(s, update(0), update(1))
    assert len(first.steps) == 1 and second.steps == ()
    assert s.version == 1 and s.unused == 1


def ahead(buffer: int) -> Server:
    """Arrivals(distinct) among five clients: 0 and 1 took version 0, the others have made version 1."""
    s = begun(Arrivals(buffer, distinct=True), 5)
    for client in (0, 1):
        s.retrieve(client, 0, 0)
    deliver(s, *(update(client) for client in range(2, 2 + buffer)))
    assert s.dispatch(0.0) == [Broadcast(1, 1)]
    return s


def test_a_second_delivery_waits_for_the_next_step_and_may_complete_it() -> None:
    """What is kept is offered after the step, in order, and the version it names stays held."""
    s = ahead(buffer=2)
    first, second = deliver(s, update(0, 2.0), update(0, 5.0, session=2, version=1))
    assert (first.receipt.reason, second.receipt.reason) == ("", "second of this client")
    assert first.steps == second.steps == () and s.unused == 2
    step = step_of(deliver(s, update(1, 4.0))[0])
    assert (step.clients, step.sessions, step.staleness, step.x[0]) == ((0, 1), (1, 1), (1, 1), 1.0 + 3.0)
    assert s.unused == 1 and s.state.kept == []
    s.dispatch(0.0)
    step = step_of(deliver(s, update(2, 1.0, session=2, version=2))[0])
    assert (step.clients, step.sessions, step.staleness, step.x[0]) == ((0, 2), (2, 2), (1, 0), 4.0 + 3.0)
    assert_sound(s)


def test_kept_updates_can_make_several_steps_at_once() -> None:
    """Two clients have delivered twice each when all others, whom the step waited for, leave."""
    s = ahead(buffer=3)
    deliver(s, update(0), update(1), update(0, session=2, version=1), update(1, session=2, version=1))
    assert [s.left(client) for client in (2, 3, 4)] == [()] * 3
    s.dispatch(5.0)
    assert s.wake_at == 5.0
    steps = [step for step in s.woke(5.0) if isinstance(step, Step)]
    assert [(step.clients, step.sessions) for step in steps] == [((0, 1), (1, 1)), ((0, 1), (2, 2))]
    assert s.state.kept == [] and s.unused == 0
    assert_sound(s)


# ---------------------------------------------------------------- refusals


def test_the_same_session_twice_is_a_duplicate() -> None:
    s = begun(Rounds())
    first, again = deliver(s, update(0), update(0))
    assert (again.receipt.accepted, again.receipt.reason) == (False, "client 0: session 1 came twice")
    assert (first.receipt.taken, again.receipt.taken) == (
        1,
        1,
    )  # the acknowledgement, as often as it is asked for
    assert s.counts.duplicates == 1 and s.counts.taken == 1


def test_an_answer_nobody_waits_for_is_refused_and_not_remembered() -> None:
    s = begun(Rounds(1, Scripted([[0], [1]])))
    [answer] = deliver(s, update(2))
    assert answer.receipt.reason == "client 2: late for round 0" and s.counts.refused == 1
    assert s.last_taken(2) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"frames": {"update": b"junk"}},
        {"frames": {"update": frame(0.0, 0.0, 0.0)}},
        {"version": 7},
        {"version": -2},
        {"version": -1},  # a whole model, where nobody averages
        {"steps": -1},
        {"a_norm1": math.nan},
        {"steps": 2, "a_norm1": 0.0},
        {"samples": -1.0},
    ],
)
def test_senseless_updates_are_refused_and_free_their_place(changes: dict[str, Any]) -> None:
    s = begun(Buffered(1, 1, select=Scripted([[0], [1]])))
    [answer] = deliver(s, update(0, **changes))
    assert not answer.accepted and not answer.receipt.resync
    assert s.counts.malformed == 1
    assert s.dispatch(0.0) == [Send(1, 0, 0)]


@pytest.mark.parametrize("client", [-1, 3])
def test_an_unknown_client_is_refused(client: int) -> None:
    s = begun(Interrupting(1, 2.0))
    [answer] = deliver(s, update(client))
    assert answer.receipt.reason == f"client {client}: there are 3 clients"
    assert s.dispatch(0.0) == []


@pytest.mark.parametrize("opt", [Momentum(), Momentum(0.5, 0.9, 0.9), AMSGrad(0.1)], ids=repr)
@pytest.mark.parametrize(
    "codec", [Dense("fp16"), Dense("fp64"), TopK(1.0, "bf16"), Quantize(4, values="fp16")], ids=repr
)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_model_keeps_its_type_whatever_the_wire_has(opt: Any, codec: Any, kind: Any) -> None:
    rule = Algorithm(local=SGD(0.5, steps=2), up=codec, server_opt=opt)
    s = Server(rule, np.zeros(2, kind), 1)
    s.dispatch(0.0)
    [answer] = deliver(s, update(0, frames={"update": codec.encode(np.ones(2, kind), RNG)}))
    assert step_of(answer).x.dtype == kind and s.model.any()


@pytest.mark.parametrize("frames", [{}, {"update": not_finite_frame()}])
def test_a_failed_session_is_counted_and_frees_its_place(frames: dict[str, bytes]) -> None:
    """An empty update says so; NaN that comes all the same is noticed."""
    s = begun(Buffered(2, 2, select=Scripted([[0, 1], [2]])))
    [answer] = deliver(s, update(0, frames=frames))
    assert answer.receipt.reason == "client 0: update is not finite" and s.counts.not_finite == 1
    assert s.dispatch(0.0) == [Send(2, 0, 0)]


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
    s = begun(Buffered(1, 1), 1, up=Remembering())
    s.state.up[0] = "lost"
    receipt = s.receive(update(0), 0.0).receipt
    assert receipt.resync and not receipt.accepted
    assert s.counts.resyncs == 1 and s.counts.malformed == 0 and 0 not in s.state.up
    s.dispatch(0.0)
    assert s.receive(update(0, session=2), 0.0).accepted
    assert s.state.up[0] == "something"


# ---------------------------------------------------------------- models


def test_a_model_for_all_clients_is_packed_once() -> None:
    s = begun(Rounds())
    first = s.retrieve(0, 0, 0)
    assert s.retrieve(1, 0, 0) is first
    assert (first.version, first.round, first.context.clients_per_step) == (0, 0, 3)
    assert first.size_bytes == len(first.frames["model"]) == len(frame(0.0, 0.0))
    deliver(s, *(update(client) for client in range(3)))
    s.dispatch(0.0)
    assert s.retrieve(0, 1, 1) is not first


def test_a_model_with_a_reference_per_client_is_packed_for_each_of_them() -> None:
    """Two clients meet the server for the first time, the first one twice."""
    s = begun(Rounds(), down=Difference(Dense(), first="seed"))
    first, other, again = s.retrieve(0, 0, 0), s.retrieve(1, 0, 0), s.retrieve(0, 0, 0)
    assert first is not other
    assert [sorted(parcel.frames) for parcel in (first, other, again)] == [["model", "seed"]] * 2 + [
        ["model"]
    ]


def test_a_correction_travels_beside_the_model_and_beside_the_update() -> None:
    s = begun(Rounds(), correction=Scaffold())
    assert set(s.retrieve(0, 0, 0).frames) == {"model", "control"}
    for client in range(3):
        s.receive(update(client, frames={"update": frame(1.0, 1.0), "control": frame(3.0, 0.0)}), 0.0)
    assert s.state.control.c.tolist() == [3.0, 0.0]
    s.dispatch(0.0)
    without = s.receive(update(0, session=2, version=1), 0.0)
    assert not without.accepted and s.counts.malformed == 1


def test_step_norms_are_kept_for_links_that_ask_for_them() -> None:
    s = begun(Arrivals(1), up=Remembering())
    for session in (1, 2, 3):
        s.receive(update(0, float(session), session=session, version=session - 1), 0.0)
        s.dispatch(0.0)
    assert s.state.step_norms == (18.0, 8.0)  # ||(3, 3)||^2, ||(2, 2)||^2: newest first, two of them
    assert s.retrieve(0, 3, 3).context.step_norms == (18.0, 8.0)


# ---------------------------------------------------------------- who is there


def test_who_leaves_is_waited_for_no_longer_and_who_joins_is_drawn_again() -> None:
    s = begun(Rounds())
    deliver(s, update(0), update(1))
    [step] = s.left(2)
    assert step.clients == (0, 1)
    assert (s.present, s.is_present(2)) == (2, False)
    assert s.dispatch(0.0) == [Send(0, 1, 1), Send(1, 1, 1)]
    s.joined(2)
    assert (s.present, s.is_present(2)) == (3, True)


def test_a_server_needs_a_client() -> None:
    with pytest.raises(ConfigError, match="clients must be a whole number >= 1; got 0"):
        server(Rounds(), clients=0)


def test_what_an_update_will_be_taken_for_can_be_asked_without_consequences() -> None:
    s = begun(Rounds())
    assert s.used(update(0, 3.0)).tolist() == [3.0, 3.0]
    assert (s.last_taken(0), s.counts.taken) == (0, 0)
    assert update(0).size_bytes == len(frame(3.0, 3.0))


def test_mutual_averaging_sends_whole_models() -> None:
    """QuAFL: version -1, measured from zero, never stale: x <- (x + sum Y) / (s + 1)."""
    pace = Interrupting(2, 1.0, averaging=True, select=Scripted([[0, 1]]))
    s = begun(pace, aggregate=Pooled(None))
    s.woke(1.0)
    assert s.dispatch(1.0) == [Interrupt(0, 0, 0), Interrupt(1, 0, 0)]
    step = step_of(deliver(s, update(0, 3.0, version=-1), update(1, 6.0, version=-1))[1])
    assert (step.x[0], step.staleness) == (3.0, (0, 0))


def test_an_averaging_server_knows_no_other_version() -> None:
    s = begun(Interrupting(1, 1.0, averaging=True, select=Scripted([[0]])), aggregate=Pooled(None))
    s.woke(1.0)
    s.dispatch(1.0)
    [answer] = deliver(s, update(0, version=0))
    assert not answer.accepted and s.counts.malformed == 1
