"""The server owns its versions: who may report from which, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.server.hand import begun, deliver, server, step_of, update

from fedpace.aggregate import Mixing, Pooled
from fedpace.errors import ProtocolError, RemoteError
from fedpace.limits import Limits
from fedpace.pace import Arrivals, Buffered, Immediate, Interrupting, Polled, Replayed, Rounds, Scripted
from fedpace.pace.available import Available, Draw
from fedpace.pace.protocol import Broadcast, Interrupt, Order, Poll, Send
from fedpace.server import Server
from fedpace.server.invariants import assert_sound


def held(s: Server) -> dict[int, int]:
    """version -> how many reasons there are to hold it."""
    return s.state.versions.holders


def test_an_update_is_measured_from_the_model_its_client_was_sent() -> None:
    """FedAsync, x = 0, both clients from version 0, deltas 4 then 8: 2, then (2 + 8) / 2 = 5.

    Measured from the newest model the second would be 2 + (8 + 2 - 2) / 2 = 6.
    """
    s = begun(Immediate(2), 2, aggregate=Mixing(0.5))
    first = step_of(s.receive(update(0, 4.0), 0.0))
    assert first.x.tolist() == [2.0, 2.0]
    second = step_of(s.receive(update(1, 8.0), 0.0))
    assert second.x.tolist() == [5.0, 5.0]
    assert second.staleness == (1,)


# ---------------------------------------------------------------- what holds, and what gives back


def test_an_order_holds_what_it_sends_and_retrieving_it_holds_nothing_more() -> None:
    s = server(Rounds())
    assert held(s) == {}
    s.dispatch(0.0)
    assert held(s) == {0: 3}
    s.retrieve(0, 0, 0)
    s.retrieve(0, 0, 0)
    assert held(s) == {0: 3}


def test_a_broadcast_holds_one_version_for_all_until_the_next() -> None:
    s = begun(Arrivals(1), 1000)
    assert held(s) == {0: 1}
    deliver(s, update(0))
    assert held(s) == {0: 1}  # the next broadcast is not ordered yet
    s.dispatch(0.0)
    assert held(s) == {1: 1} and list(s.state.versions.models) == [1]


def test_who_takes_a_broadcast_holds_it_until_it_answers() -> None:
    s = begun(Arrivals(1))
    s.retrieve(0, 0, 0)
    deliver(s, update(1))
    s.dispatch(0.0)
    assert held(s) == {0: 1, 1: 1}
    assert step_of(deliver(s, update(0))[0]).staleness == (1,)
    assert held(s) == {1: 1}


@pytest.mark.parametrize(
    "end",
    [
        lambda s: s.receive(update(0), 0.0),
        lambda s: s.receive(update(0, frames={"update": b"junk"}), 0.0),
        lambda s: s.receive(update(0, frames={}), 0.0),
        lambda s: s.lost(0),
        lambda s: s.left(0),
    ],
    ids=["taken", "malformed", "not finite", "lost", "left"],
)
def test_what_becomes_of_an_order_gives_its_version_back(end: Callable[[Server], Any]) -> None:
    s = begun(Buffered(2, 2, select=Scripted([[0, 1], [2]])))
    assert held(s) == {0: 2}
    end(s)
    assert held(s) == {0: 1}


def test_too_stale_an_update_gives_its_version_back() -> None:
    s = begun(Immediate(2, Scripted([[0, 1], [0], [2]]), max_staleness=0))
    deliver(s, update(0))
    s.dispatch(0.0)
    [answer] = deliver(s, update(1))
    assert answer.receipt.reason == "client 1: staler than 0 steps"
    assert held(s) == {1: 1}


def test_a_newer_order_overtakes_an_older_one() -> None:
    """Patience ended without client 1, which is drawn again: its answer to the first round is late."""
    s = begun(Rounds(2, Scripted([[0, 1], [1, 2]]), patience_s=5.0))
    deliver(s, update(0))
    assert len(s.woke(5.0)) == 1
    assert s.dispatch(5.0) == [Send(1, 1, 1), Send(2, 1, 1)]
    assert held(s) == {1: 2}
    assert s.lost(1, round=0) == () and held(s) == {1: 2}  # a session of the first round came to nothing
    assert not s.receive(update(1), 6.0).accepted
    deliver(s, update(2, version=1, session=1))
    assert step_of(s.receive(update(1, session=2, version=1), 7.0)).clients == (2, 1)


def test_a_late_update_of_an_overtaken_order_does_not_free_the_place_of_the_new_one() -> None:
    """The driver gave client 0 up; the server chose it again; then the first update comes after all."""
    s = begun(Buffered(1, 2, "immediate", Scripted([[0, 1], [2], [0]])))
    s.lost(0)
    deliver(s, update(1, 1.0))
    assert s.dispatch(0.0) == [Send(2, 1, 1), Send(0, 1, 1)]
    [late] = deliver(s, update(0, 64.0))
    assert late.receipt.reason == "client 0: late: a newer model was sent to it"
    assert s.counts.refused == 1 and held(s) == {1: 2}
    assert s.dispatch(0.0) == []  # nobody is sent in its place
    assert deliver(s, update(0, 1.0, session=2, version=1))[0].accepted


def test_who_works_until_interrupted_may_report_from_the_model_before() -> None:
    """FAVANO: client 0 was sent a newer model while it trained, and is interrupted before it took it."""
    s = begun(Interrupting(1, 1.0, select=Scripted([[1], [0]])), aggregate=Pooled())
    s.retrieve(0, 0, 0)
    s.retrieve(1, 0, 0)
    s.joined(0)  # it is sent the newest model, as if it had just come
    assert s.dispatch(0.5) == [Send(0, 0, 0)]
    s.woke(1.0)
    s.dispatch(1.0)
    deliver(s, update(1, 1.0))
    s.joined(0)
    assert s.dispatch(1.0) == [Send(1, 1, 1), Send(0, 1, 1)]
    s.woke(2.0)
    assert s.dispatch(2.0) == [Interrupt(0, 1, 1)]
    assert deliver(s, update(0, 1.0))[0].accepted
    assert_sound(s)


def test_an_interrupt_that_comes_before_the_model_does_not_lose_the_model() -> None:
    s = begun(Interrupting(1, 1.0, select=Scripted([[0], [0], [0]])), 1)
    s.retrieve(0, 0, 0)
    s.woke(1.0)
    s.dispatch(1.0)
    deliver(s, update(0, 1.0))
    assert s.dispatch(1.0) == [Send(0, 1, 1)]
    s.woke(2.0)
    assert s.dispatch(2.0) == [Interrupt(0, 1, 1)]
    assert s.lost(0) == ()  # nothing to report yet: its model is still on its way
    assert s.retrieve(0, 1, 1).version == 1


def test_one_client_cannot_make_the_server_hold_every_version() -> None:
    s = begun(Arrivals(1), limits=Limits(versions=2))
    for version in range(5):
        s.retrieve(0, version, version)
        deliver(s, update(1, version=version, session=version + 1))
        s.dispatch(0.0)
    assert s.state.holds.taken == {0: [3, 4]}
    [answer] = deliver(s, update(0, version=2))
    assert not answer.accepted and "version 2 is not held for it" in answer.receipt.reason
    assert_sound(s)


def test_a_broadcast_can_be_kept_while_it_is_on_its_way() -> None:
    s = begun(Arrivals(1))
    s.keep(0)
    deliver(s, update(0))
    s.dispatch(0.0)
    assert s.retrieve(1, 0, 0).version == 0
    s.release(0)
    with pytest.raises(RemoteError, match="client 2: version 0 is not held for it"):
        s.retrieve(2, 0, 0)
    assert_sound(s)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("version", [1, 7, 10**9])
def test_a_claimed_version_that_is_not_held_is_malformed(version: int) -> None:
    s = begun(Immediate(1, Scripted([[0], [1]])))
    [answer] = deliver(s, update(0, version=version, round=0))
    assert (answer.accepted, s.counts.malformed, s.version) == (False, 1, 0)
    assert answer.receipt.reason == f"client 0: version {version} is not held for it"


def test_a_version_that_another_client_holds_is_not_ones_own() -> None:
    s = begun(Immediate(2, Scripted([[0, 1], [0]])))
    deliver(s, update(0))
    s.dispatch(0.0)
    [answer] = deliver(s, update(0, session=2, version=0, round=1))
    assert answer.receipt.reason == "client 0: version 0 is not held for it"


@pytest.mark.parametrize(
    "pace",
    [Rounds(), Buffered(1, 1), Immediate(1), Arrivals(1), Polled(1), Interrupting(1, 1.0), Replayed(2)],
    ids=lambda pace: type(pace).__name__,
)
def test_whole_models_are_for_averaging_servers_only(pace: Any) -> None:
    s = begun(pace, 1)
    [answer] = deliver(s, update(0, version=-1))
    assert not answer.accepted and s.counts.malformed == 1
    assert answer.receipt.reason == "client 0: version -1 is none this pacing rule works with"


def test_a_model_not_held_for_a_client_cannot_be_retrieved() -> None:
    s = begun(Rounds(1, Scripted([[0], [0]])))
    for client, version in ((1, 0), (0, 1), (0, -1)):
        with pytest.raises(RemoteError, match=f"client {client}: version {version} is not held for it"):
            s.retrieve(client, version, 0)
    deliver(s, update(0))
    with pytest.raises(RemoteError):
        s.retrieve(0, 0, 0)


def test_a_model_that_was_broadcast_is_trained_from_once_unless_it_is_reused() -> None:
    for reuse in (False, True):
        s = begun(Arrivals(3, reuse_model=reuse))
        assert deliver(s, update(0))[0].accepted
        assert deliver(s, update(0, session=2))[0].accepted is reuse


@dataclass(frozen=True)
class Calling(Rounds):
    """Calls its server while it is asked what to do."""

    def dispatch(
        self, version: int, now: float, available: Available, state: Any, draw: Draw
    ) -> tuple[Order, ...]:
        CALLED[0].dispatch(now)
        return ()


CALLED: list[Server] = []


def test_dispatch_is_not_reentrant_and_says_so() -> None:
    s = server(Calling())
    CALLED[:] = [s]
    with pytest.raises(ProtocolError, match="dispatch cannot be called from within itself"):
        s.dispatch(0.0)
    CALLED[:] = [server(Rounds())]
    assert s.dispatch(0.0) == []  # and works again afterwards


def test_orders_are_the_messages() -> None:
    assert [type(order) for order in server(Polled(1)).dispatch(0.0)] == [Broadcast, Poll]
