"""Nobody is waited for for ever: deadlines from a client's own history, and a grace for broken connections.

Server and clients as functions, without a loop and without a clock.
"""

from __future__ import annotations

import pytest

from fedpace.algorithms import fedsgd
from fedpace.deploy import Owner, Patience, inputs
from fedpace.deploy.coordinator import Coordinator
from fedpace.deploy.expectations import Awaited, Expectations
from fedpace.deploy.inputs import Input, InputKind
from fedpace.deploy.messages import Message, MessageKind, welcomed
from fedpace.deploy.participant import Participant
from fedpace.deploy.plan import RunPlan
from fedpace.deploy.reaction import Reaction
from fedpace.deploy.terms import Terms
from fedpace.tasks import quadratics

TASK = quadratics([[1.0], [3.0], [5.0]])
PATIENCE = Patience(factor=4.0, least_s=0.5, first_s=5.0, grace_s=3.0)


class Hand:
    """Delivers messages when it is told to."""

    def __init__(self) -> None:
        terms = Terms(plan=RunPlan.of(fedsgd()), clients=3, rounds=9, wait_for=3, patience=PATIENCE)
        self.server = Coordinator(terms, TASK.initial(0), TASK.layout, b"r" * 16)
        self.clients = [Participant(TASK, i, Owner()) for i in range(3)]
        self.out: list[tuple[int, MessageKind]] = []
        self.trains: dict[int, Reaction] = {}
        self.happens(inputs.started(0.0, 1))

    def happens(self, what: Input) -> None:
        for client, message in self.server.handle(what):
            self.out.append((client, message.kind))
            self.deliver(client, message, what.now)

    def deliver(self, client: int, message: Message, now: float) -> None:
        data = b"".join(self.server.envelope.pack(message))
        welcome = message.kind is MessageKind.WELCOME
        end = self.clients[client]
        self.react(client, end.welcome(*welcomed(data)) if welcome else end.receive(message), now)

    def react(self, client: int, reaction: Reaction, now: float) -> None:
        if reaction.train is not None:
            self.trains[client] = reaction
        for message in reaction.send:
            body = b"".join(self.server.envelope.pack(message))
            self.happens(Input(InputKind.MESSAGE, now, client, body))

    def hello(self, client: int, now: float) -> None:
        self.react(client, self.clients[client].connected(), now)

    def dispatch(self, now: float) -> None:
        self.happens(Input(InputKind.DISPATCH, now))

    def finish(self, client: int, now: float) -> None:
        request = self.trains.pop(client).train
        assert request is not None
        delta = TASK.solve(request)
        self.react(client, self.clients[client].trained(request.session, delta, request.steps), now)


@pytest.fixture
def hand() -> Hand:
    hand = Hand()
    for client in range(3):
        hand.hello(client, 0.0)
        hand.dispatch(0.0)
    return hand


def test_nothing_is_sent_before_enough_clients_have_joined() -> None:
    hand = Hand()
    for client in range(2):
        hand.hello(client, 0.0)
        hand.dispatch(0.0)
    assert hand.trains == {}
    hand.hello(2, 0.0)
    hand.dispatch(0.0)
    assert set(hand.trains) == {0, 1, 2}


def test_a_client_without_history_has_the_first_patience_and_counts_as_gone_until_it_is_heard(
    hand: Hand,
) -> None:
    for client in (0, 1):
        hand.finish(client, 1.0)
    assert (hand.server.server.version, hand.server.wake_at) == (0, 5.0)
    hand.clients[2].receive = lambda message: Reaction()  # type: ignore[method-assign]  # it hangs
    hand.happens(Input(InputKind.WAKE, 5.0))
    hand.dispatch(5.0)
    assert hand.server.server.version == 1
    assert hand.server.state.steps[0].clients == (0, 1)
    assert hand.out[-3:] == [(2, MessageKind.RECALL), (0, MessageKind.MODEL), (1, MessageKind.MODEL)]
    assert not hand.server.server.is_present(2)
    hand.finish(2, 6.0)  # late
    assert hand.server.server.is_present(2)
    assert hand.server.counters()["refused"] == hand.server.counters()["overdue"] == 1
    for client in (0, 1):
        hand.finish(client, 6.5)
    hand.dispatch(6.5)
    assert hand.out[-1] == (2, MessageKind.MODEL)


def test_the_deadline_follows_from_a_clients_own_sessions(hand: Hand) -> None:
    for client, seconds in enumerate((0.1, 1.0, 2.0)):
        hand.finish(client, seconds)
    hand.dispatch(2.0)
    until = {client: each.until_s - 2.0 for client, each in hand.server.state.expected.clients.items()}
    assert until == {0: 0.5, 1: 4.0, 2: 8.0}  # at least least_s; four times as long as it took


def test_a_broken_connection_has_a_grace_in_which_the_work_goes_on(hand: Hand) -> None:
    hand.happens(Input(InputKind.AWAY, 1.0, 2))
    assert hand.server.wake_at == 4.0
    hand.hello(2, 2.0)
    assert hand.server.wake_at == 5.0
    for client in range(3):
        hand.finish(client, 2.5)
    assert hand.server.state.steps[0].clients == (0, 1, 2)


def test_after_the_grace_it_is_gone(hand: Hand) -> None:
    for client in (0, 1):
        hand.finish(client, 1.0)
    hand.happens(Input(InputKind.AWAY, 1.0, 2))
    hand.happens(Input(InputKind.WAKE, 4.0))
    assert hand.server.state.steps[0].clients == (0, 1)


def test_samples_are_those_a_client_first_said(hand: Hand) -> None:
    hand.happens(Input(InputKind.AWAY, 0.5, 2))
    hand.happens(Input(InputKind.WAKE, 3.5))
    hand.clients[2].samples = 1e6
    hand.hello(2, 4.0)
    assert hand.server.state.samples == {0: 1.0, 1: 1.0, 2: 1.0}


def test_the_time_that_a_client_was_away_is_not_held_against_it() -> None:
    """A server that restarts reaches its clients late; the sessions it had ordered wait for them as long as before."""
    expected = Expectations()
    expected.expect(0, Awaited.TRAINING, 0, 0, 10.0, PATIENCE)  # until 15
    expected.away_until_s[0] = 12.0 + PATIENCE.grace_s
    expected.back(0, 14.5, PATIENCE.grace_s)
    assert expected.overdue(17.4) == [] and expected.overdue(17.5) == [0]
    assert expected.next_s() == 17.5
