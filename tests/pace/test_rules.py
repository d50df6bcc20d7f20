"""Pacing rules driven by hand: what they answer to an arrival, a loss and the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedpace.errors import ConfigError
from fedpace.pace import (
    Arrivals,
    Available,
    Buffered,
    ByShare,
    Immediate,
    Interrupting,
    Polled,
    Replayed,
    Rounds,
    Scripted,
    WithReplacement,
)
from fedpace.pace.protocol import Broadcast, Interrupt, Order, Poll, Send, WakeAt


@dataclass(frozen=True)
class Header:
    client: int
    session: int
    version: int
    round: int


class Drive:
    """One rule, its state, and six clients."""

    def __init__(self, pace: Any, clients: int = 6) -> None:
        self.pace, self.state, self.clients = pace, pace.init(clients), clients
        self.absent: set[int] = set()

    def dispatch(self, version: int = 0, now: float = 0.0) -> tuple[Order, ...]:
        available = Available(self.clients, self.absent)
        orders: tuple[Order, ...] = self.pace.dispatch(
            version, now, available, self.state, lambda: np.random.default_rng(0)
        )
        return orders

    def arrived(self, client: int, version: int = 0, started: int = 0) -> tuple[int | None, bool, str]:
        """As the server has it: who is not expected is refused, and the rule's state stays as it is."""
        header = Header(client, 1, started, started)
        if unexpected := self.pace.expects(header, version, self.state):
            return 0, False, unexpected
        decision = self.pace.arrived(header, version, self.state)
        return decision.count, decision.step, decision.reason

    def lost(self, client: int) -> bool:
        return bool(self.pace.lost(client, self.state))

    def left(self, client: int) -> bool:
        self.absent.add(client)
        return self.lost(client)

    def woke(self, now: float) -> bool:
        return bool(self.pace.woke(now, self.state))


# ---------------------------------------------------------------- rounds


def test_rounds_wait_for_all_and_count_repeats() -> None:
    d = Drive(Rounds(3, Scripted([[4, 1, 4]])))
    assert d.dispatch() == (Send(1), Send(4))
    assert d.dispatch() == ()
    assert d.arrived(4) == (2, False, "")
    assert d.arrived(1) == (1, True, "")


def test_rounds_refuse_who_comes_late() -> None:
    d = Drive(Rounds(1, Scripted([[0], [0]])))
    d.dispatch(version=0)
    d.arrived(0)
    d.dispatch(version=1)
    assert d.arrived(0, version=1, started=0) == (0, False, "late for round 0")
    assert d.arrived(0, version=1, started=1) == (1, True, "")


def test_a_round_of_lost_clients_is_drawn_again() -> None:
    d = Drive(Rounds(2, Scripted([[0, 1], [2, 3]])))
    d.dispatch()
    assert not d.lost(0) and not d.lost(1)
    assert d.dispatch() == (Send(2), Send(3))


def test_patience_ends_with_the_deadline_or_with_the_first_answer_after_it() -> None:
    d = Drive(Rounds(2, Scripted([[0, 1], [2, 3]]), patience_s=5.0))
    assert d.dispatch(now=10.0) == (Send(0), Send(1), WakeAt(15.0))
    d.arrived(1)
    assert not d.woke(14.0)
    assert d.woke(15.0)
    assert d.dispatch(version=1, now=15.0)[-1] == WakeAt(20.0)
    assert not d.woke(20.0)  # nobody has answered yet
    assert d.arrived(3, version=1, started=1) == (1, True, "")


def test_no_round_is_opened_when_nobody_is_there() -> None:
    d = Drive(Rounds(), clients=1)
    d.absent = {0}
    assert d.dispatch() == ()


# ---------------------------------------------------------------- buffers


def test_batch_dispatch_replaces_a_whole_buffer_after_the_step() -> None:
    d = Drive(Buffered(2, 3, select=Scripted([[0, 1, 2], [0, 5]])))
    assert d.dispatch() == (Send(0), Send(1), Send(2))
    assert d.arrived(0) == (1, False, "")
    assert d.dispatch() == ()
    assert d.arrived(0) == (0, False, "not expected")  # it waits for the step
    assert d.arrived(2) == (1, True, "")
    assert d.dispatch() == (Send(0), Send(5))


def test_immediate_dispatch_refills_each_place_by_itself() -> None:
    d = Drive(Buffered(2, 2, "immediate", Scripted([[0, 1], [0], [3]])))
    d.dispatch()
    assert d.arrived(0) == (1, False, "")
    assert d.dispatch() == (Send(0),)
    assert d.arrived(0) == (1, True, "")
    d.lost(1)
    assert d.state.free == 2


def test_every_step_of_one_instant_has_a_choice_of_its_own() -> None:
    d = Drive(Buffered(2, 4, select=Scripted([[0, 1, 2, 3], [0, 1], [2, 3]])))
    d.dispatch()
    assert [d.arrived(client)[1] for client in range(4)] == [False, True, False, True]
    assert d.dispatch() == (Send(0), Send(1), Send(2), Send(3))


def test_places_nobody_was_found_for_are_filled_with_the_next_ones_or_by_who_joins() -> None:
    d = Drive(Buffered(1, 3), clients=3)
    d.absent = {0, 1}
    assert d.dispatch() == (Send(2),) and d.state.free == 2
    assert d.dispatch() == () and d.state.asked == 1
    d.absent = {0}
    d.pace.joined(1, d.state)
    assert d.dispatch() == (Send(1),) and d.state.free == 1
    d.arrived(2)
    d.absent = set()
    assert {order.client for order in d.dispatch()} == {0, 2} and d.state.free == 0


@pytest.mark.parametrize(("group", "allowed"), [([0, 0], "distinct"), ([0, 1, 2], "at most 2")])
def test_a_script_that_does_not_fit_the_places_is_refused(group: list[int], allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"clients to activate must be {allowed}; got"):
        Drive(Buffered(1, 2, select=Scripted([group]))).dispatch()


def test_too_stale_an_update_is_refused_and_its_place_freed() -> None:
    for pace in (Buffered(1, 1, max_staleness=1), Immediate(1, max_staleness=1)):
        d = Drive(pace)
        [sent] = d.dispatch()
        assert isinstance(sent, Send)
        assert d.arrived(sent.client, version=3, started=1) == (0, False, "staler than 1 steps")
        assert d.state.free == 1
        [sent] = d.dispatch(version=3)
        assert isinstance(sent, Send)
        assert d.arrived(sent.client, version=4, started=3) == (1, True, "")


def test_a_part_filled_batch_makes_a_step_when_nobody_more_can_be_sent_to_work() -> None:
    d = Drive(Buffered(3, 3), clients=3)
    d.dispatch()
    d.arrived(0)
    d.arrived(1)
    assert not d.left(2)
    assert d.dispatch(now=7.0) == (WakeAt(7.0),)
    assert d.woke(7.0)
    assert d.dispatch(version=1, now=7.0) == (Send(0), Send(1))
    assert not d.woke(8.0)  # an empty buffer makes no step


def test_a_part_filled_batch_waits_while_nobody_is_there_at_all() -> None:
    d = Drive(Buffered(2, 2), clients=2)
    d.dispatch()
    d.arrived(0)
    d.left(1)
    d.absent.add(0)
    assert d.dispatch() == ()
    d.absent = {0}
    assert d.dispatch() == (Send(1),)


def test_losing_a_client_that_has_delivered_frees_nothing() -> None:
    d = Drive(Buffered(2, 2))
    d.dispatch()
    client = next(iter(d.state.active))
    d.arrived(client)
    d.lost(client)
    assert d.state.free == 0


def test_immediate_takes_a_step_on_every_arrival() -> None:
    d = Drive(Immediate(2, Scripted([[0, 1], [2]])))
    d.dispatch()
    assert d.arrived(1) == (1, True, "")
    assert d.dispatch(version=1) == (Send(2),)
    assert not d.woke(0.0)
    assert (
        repr(d.pace) == "Immediate(concurrency=2, select=Scripted(groups=((0, 1), (2,))), max_staleness=None)"
    )


# ---------------------------------------------------------------- all clients all the time


def test_arrivals_publish_each_model_once() -> None:
    d = Drive(Arrivals(2))
    assert d.dispatch() == (Broadcast(),)
    assert d.dispatch() == ()
    assert d.arrived(0) == (1, False, "") and d.arrived(0) == (
        1,
        True,
        "",
    )  # the same client twice: both count
    assert d.dispatch(version=1) == (Broadcast(),)


def test_distinct_arrivals_keep_a_second_one_for_later() -> None:
    d = Drive(Arrivals(2, distinct=True))
    d.arrived(0)
    assert d.arrived(0) == (None, False, "second of this client")
    assert d.arrived(1) == (1, True, "")


def test_arrivals_ask_for_no_more_than_are_there() -> None:
    d = Drive(Arrivals(3), clients=3)
    d.dispatch()
    d.arrived(0)
    d.arrived(1)
    assert not d.left(2)
    assert d.dispatch(now=4.0) == (WakeAt(4.0),)
    assert d.woke(4.0) and not d.woke(4.0)
    d.dispatch(version=1)
    assert d.arrived(0) == (1, False, "") and d.arrived(1) == (1, True, "")


def test_retraining_clients_fill_any_buffer() -> None:
    d = Drive(Arrivals(9, reuse_model=True))
    d.absent = {1, 2, 3, 4, 5}
    d.dispatch()
    assert [d.arrived(0)[1] for _ in range(9)] == [False] * 8 + [True]


def test_polling_asks_each_drawn_client_once_and_counts_its_draws() -> None:
    d = Drive(Polled(3, Scripted([[2, 2, 0], [1]])))
    assert d.dispatch() == (Broadcast(), Poll(0), Poll(2))
    assert d.arrived(1) == (0, False, "not asked for")
    assert d.arrived(2) == (2, False, "")
    assert d.left(0)  # takes its draw with it
    assert d.dispatch(version=1) == (Broadcast(), Poll(1))
    assert not d.woke(0.0)


# ---------------------------------------------------------------- the server's own rhythm


def test_interrupting_ticks_and_sends_the_new_model_to_whom_it_interrupted() -> None:
    d = Drive(Interrupting(2, 3.0, select=Scripted([[4, 1], [1, 2]])))
    assert d.dispatch(now=0.0) == (Broadcast(), WakeAt(3.0))
    assert d.arrived(0) == (0, False, "not interrupted")
    assert not d.woke(3.0)
    assert d.dispatch(now=3.0) == (Interrupt(1), Interrupt(4), WakeAt(6.0))
    assert d.arrived(4) == (1, False, "") and d.arrived(1) == (1, True, "")
    assert d.dispatch(version=1, now=3.0) == (Send(4), Send(1))


def test_who_fails_leaves_or_comes_back_gets_the_newest_model() -> None:
    d = Drive(Interrupting(2, 3.0, select=Scripted([[0, 1], [2, 3]])))
    d.dispatch()
    d.woke(3.0)
    d.dispatch(now=3.0)
    d.lost(0)
    d.absent.add(1)
    assert not d.lost(1)  # nobody has answered: no step
    assert d.dispatch(now=3.0) == (Send(0),)
    d.absent.discard(1)
    d.pace.joined(1, d.state)
    assert d.dispatch(now=4.0) == (Send(1),)


def test_mutual_averaging_sends_no_new_model() -> None:
    d = Drive(Interrupting(1, 3.0, averaging=True, select=Scripted([[0]])))
    d.dispatch()
    d.woke(3.0)
    d.dispatch(now=3.0)
    assert d.arrived(0) == (1, True, "")
    assert d.dispatch(version=1, now=3.0) == ()


def test_the_rhythm_stops_while_nobody_is_there() -> None:
    d = Drive(Interrupting(1, 3.0), clients=1)
    d.absent = {0}
    assert d.dispatch() == (Broadcast(),)
    d.absent = set()
    assert d.dispatch(now=5.0) == (WakeAt(8.0),)


def test_a_period_that_nobody_knows_must_be_given() -> None:
    with pytest.raises(ConfigError, match="server_period must be given in seconds"):
        Drive(Interrupting(1)).dispatch()


# ---------------------------------------------------------------- replayed


def test_scripted_delays_are_truncated_at_the_first_model() -> None:
    d = Drive(Replayed(3, 2, Scripted([[5, 2], [5, 2]]), delays=[[2, 0], [1, 2]]))
    assert d.dispatch(version=0) == (Send(2, 0), Send(5, 0))
    d.lost(2)
    d.lost(5)
    assert d.dispatch(version=4) == (Send(2, 2), Send(5, 3))
    assert d.dispatch(version=4) == () and not d.woke(0.0)
    assert d.pace.keeps == 3


def test_drawn_delays_are_within_the_history() -> None:
    found = set()
    for _ in range(30):
        d = Drive(Replayed(3))
        found |= {10 - (order.version or 0) for order in d.dispatch(version=10) if isinstance(order, Send)}
    assert found <= {0, 1, 2}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Replayed(2, delays=[[2]]), r"Replayed.delays must be delays in 0..history-1 = 0..1"),
        (lambda: Drive(Replayed(2, delays=[[0]])).dispatch(), "Replayed.delays of round 0 must be 6 delays"),
        (lambda: Drive(Replayed(2, delays=[])).dispatch(), "Replayed.delays of round 0 must be 6 delays"),
        (lambda: Replayed(0), "Replayed.history must be a whole number >= 1; got 0"),
        (lambda: Rounds(patience_s=0.0), "patience_s must be > 0 seconds; got 0.0"),
        (lambda: Rounds(0), "clients_per_round must be a whole number >= 1; got 0"),
        (lambda: Buffered(0), "buffer must be a whole number >= 1; got 0"),
        (lambda: Buffered(1, 0), "concurrency must be a whole number >= 1; got 0"),
        (lambda: Buffered(1, 1, max_staleness=-1), "max_staleness must be a whole number >= 0; got -1"),
        (lambda: Immediate(0), "concurrency must be a whole number >= 1; got 0"),
        (lambda: Interrupting(0), "clients_per_round must be a whole number >= 1; got 0"),
        (lambda: Arrivals(0), "buffer must be a whole number >= 1; got 0"),
        (lambda: Replayed(2, delays=1), "Replayed.delays must be a list of whole numbers for each .*; got 1"),
        (lambda: Replayed(2, delays=[1]), r"Replayed.delays must be a list of whole .*; got \[1\]"),
        (lambda: Replayed(2, delays=[[0.5]]), r"Replayed.delays must be a list of whole .*; got \[\[0.5\]\]"),
    ],
)
def test_rules_that_make_no_sense_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda most: Buffered(most, 2, "immediate"), "buffer"),
        (lambda most: Arrivals(most, reuse_model=True), "buffer"),
        (lambda most: Polled(most), "draws"),
        (lambda most: Rounds(most, WithReplacement()), "clients_per_round"),
        (lambda most: Replayed(2, most, ByShare()), "clients_per_round"),
        (lambda most: Interrupting(most, 1.0, select=WithReplacement()), "clients_per_round"),
    ],
)
def test_no_step_waits_for_more_than_a_thousand_updates_of_each_client(make: Any, what: str) -> None:
    make(3000).init(3)
    message = rf"^{what} must be <= 1,000 times the number of clients \(3\); got 3001$"
    with pytest.raises(ConfigError, match=message):
        make(3001).init(3)
