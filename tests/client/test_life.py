"""A client's life: the table, walked at random with a real client; restarts, lost answers and lost disks."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedpace.algorithm import Algorithm
from fedpace.client import Client, ClientConfig
from fedpace.client.life import TABLE, Event, Life, PollState, SendBuffer, TrainingState, UploadState, diagram
from fedpace.errors import ProtocolError
from fedpace.link import Dense, Difference, ErrorFeedback, ResyncError, TopK
from fedpace.link.protocol import Context
from fedpace.local import SGD, Scaffold
from fedpace.pace import Arrivals, Immediate, Interrupting, Pace, Polled, Rounds
from fedpace.server import Parcel, Receipt, Server

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
DELTA = np.array([1.0, 2.0])
MODEL = Dense().encode(np.ones(2), np.random.default_rng(0))


def client(pace: Pace, number: int = 0, **rules: Any) -> Client:
    algorithm = Algorithm(pace=pace, local=SGD(lr=0.5, steps=4), **rules)
    return Client(ClientConfig.of(algorithm, np.zeros(2), seed=0), number, 1.0, 1.0)


def parcel(version: int = 0) -> Parcel:
    return Parcel(version, version, {"model": MODEL}, Context(round=version))


# ---------------------------------------------------------------- the table

MACHINES = {"work": TrainingState, "store": SendBuffer, "line": UploadState, "asked": PollState}


def test_the_table_names_every_event_and_only_known_states() -> None:
    assert set(TABLE) == set(Event)
    for rows in TABLE.values():
        for machine, arrows in rows.items():
            assert set(arrows) | set(arrows.values()) <= set(MACHINES[machine])


def test_every_state_can_be_reached() -> None:
    reached = {
        "work": {TrainingState.IDLE},
        "store": {SendBuffer.EMPTY},
        "line": {UploadState.FREE},
        "asked": {PollState.NO},
    }
    for rows in TABLE.values():
        for machine, arrows in rows.items():
            reached[machine] |= {after for before, after in arrows.items() if before is not after}
    assert reached == {machine: set(states) for machine, states in MACHINES.items()}


def test_what_cannot_happen_is_said_and_changes_nothing() -> None:
    life = Life()
    with pytest.raises(
        ProtocolError, match="'the session is done' cannot happen to a client that is idle, empty"
    ):
        life.move(Event.FINISH)
    assert life == Life()


def test_the_diagram_of_the_manual_is_made_from_the_table() -> None:
    assert diagram() in PAGE.read_text()


# ---------------------------------------------------------------- a random walk with a real client

CALLS: dict[str, Callable[[Client], object]] = {
    "begin": lambda c: c.begin(parcel()),
    "finish": lambda c: c.finish(),
    "interrupt": lambda c: c.interrupt(2),
    "lose": lambda c: c.lose(),
    "poll": lambda c: c.polled(),
    "encode": lambda c: c.encode(DELTA),
    "taken": lambda c: c.acknowledged(Receipt(True, taken=c.state.upload.session if c.state.upload else 0)),
    "refused": lambda c: c.acknowledged(Receipt(False, "no")),
    "leave": lambda c: c.leave(),
    "recover": lambda c: c.recovered(),
    "connect": lambda c: c.connected(c.state.sessions),
}


def event_of(call: str, c: Client) -> Event:
    """The event behind a call; which one a session's end is depends on how clients behave."""
    match call:
        case "finish":
            return Event.REST if c.config.rests else Event.FINISH
        case "leave":
            return Event.LEAVE_STORED if c.config.polled else Event.LEAVE
        case "taken" | "refused" | "connect":
            return Event.ANSWER
    return Event[call.upper()]


def consistent(c: Client) -> bool:
    s, life = c.state, c.state.life
    return (
        (s.running is not None) is (life.work is TrainingState.TRAINING)
        and (s.outbox is not None) is (life.store is SendBuffer.STORED)
        and (s.upload is not None) is (s.pending is not None) is (life.line is UploadState.SENDING)
    )


PACES: list[Pace] = [Rounds(), Arrivals(1), Polled(1), Polled(1, energy_saving=True), Interrupting(1, 1.0)]


@settings(max_examples=120, deadline=None)
@given(pace=st.sampled_from(PACES), calls=st.lists(st.sampled_from(sorted(CALLS)), max_size=40))
def test_a_random_walk_keeps_slots_and_states_together(pace: Pace, calls: list[str]) -> None:
    c = client(pace, up=ErrorFeedback(TopK(0.5)))
    for call in calls:
        allowed, before = c.state.life.allows(event_of(call, c)), snapshot(c)
        if allowed:
            CALLS[call](c)
        else:
            with pytest.raises(ProtocolError):
                CALLS[call](c)
            assert snapshot(c) == before
        assert consistent(c), f"{call}: {c.state.life}"


def snapshot(c: Client) -> str:
    return repr(c.state)


# ---------------------------------------------------------------- acknowledgements


def sent(c: Client, delta: Any = DELTA) -> None:
    c.begin(parcel())
    c.finish()
    c.encode(delta)


def test_the_same_answer_twice_changes_nothing() -> None:
    c = client(Rounds(), up=ErrorFeedback(TopK(0.5)))
    sent(c)
    c.acknowledged(Receipt(True, taken=1))
    before = snapshot(c)
    assert c.state.up is not None and c.state.upload is None
    c.acknowledged(Receipt(True, taken=1))
    assert snapshot(c) == before


def test_an_upload_repeated_after_a_lost_answer_commits_its_memories_once() -> None:
    """The server took it, its answer was lost, the same bytes come again: refused, and acknowledged all the same."""
    algorithm = Algorithm(pace=Rounds(), local=SGD(lr=0.5, steps=4), up=ErrorFeedback(TopK(0.5)))
    server, config = Server(algorithm, np.zeros(2), 2), ClientConfig.of(algorithm, np.zeros(2), seed=0)
    server.dispatch(0.0)
    c, twin = Client(config, 0, 1.0, 1.0), Client(config, 0, 1.0, 1.0)
    for one in (c, twin):
        one.begin(server.retrieve(0, 0, 0))
        one.finish()
        one.encode(DELTA)
    assert c.state.upload is not None
    first = server.receive(c.state.upload, 0.0)
    twin.acknowledged(first.receipt)
    again = server.receive(c.state.upload, 1.0)
    assert (first.accepted, again.accepted, again.receipt.taken) == (True, False, 1)
    c.acknowledged(again.receipt)
    assert repr(c.state.up) == repr(twin.state.up)
    assert server.counts.taken == 1


def test_who_connects_again_learns_what_was_taken() -> None:
    c = client(Rounds(), up=ErrorFeedback(TopK(0.5)))
    sent(c)
    upload = c.state.upload
    assert c.connected(0) is upload  # not taken: to be sent again
    assert c.connected(1) is None and c.state.upload is None  # taken: its memories count
    assert c.state.life.line is UploadState.FREE
    assert c.connected(1) is None


def test_sessions_are_numbered_from_the_larger_of_ones_own_count_and_what_was_taken() -> None:
    c = client(Rounds())
    c.connected(7)
    assert c.begin(parcel()).number == 8
    c.lose()
    c.connected(3)
    assert c.begin(parcel()).number == 9


# ---------------------------------------------------------------- restarts


def test_a_restart_keeps_an_unanswered_upload_with_its_memories_and_drops_the_rest() -> None:
    c = client(Arrivals(1), up=ErrorFeedback(TopK(0.5)))
    sent(c)
    c.begin(parcel(1))
    c.finish()
    c.begin(parcel(2))
    c.deliver(3, 3)
    upload, pending, count = c.state.upload, c.state.pending, c.state.sessions
    disk = deepcopy(c.state)
    again = client(Arrivals(1), up=ErrorFeedback(TopK(0.5)))
    again.state = disk
    again.recovered()
    assert again.state.running is again.state.outbox is again.state.inbox is None
    assert repr(again.state.upload) == repr(upload) and repr(again.state.pending) == repr(pending)
    assert again.state.sessions == count == 3
    assert again.ready() and consistent(again)
    assert again.connected(1) is None  # the server had taken it
    assert pending is not None and repr(again.state.up) == repr(pending.up)


def test_a_client_that_lost_its_disk_does_not_hang_a_round() -> None:
    """It starts at session 1 again, is told what was taken, and takes part in the next round."""
    algorithm = Algorithm(pace=Rounds(), local=SGD(lr=0.5, steps=4))
    server, config = Server(algorithm, np.zeros(2), 2), ClientConfig.of(algorithm, np.zeros(2), seed=0)
    clients = [Client(config, number, 1.0, 1.0) for number in range(2)]

    def play_round() -> int:
        for order in server.dispatch(0.0):
            c = clients[order.client]  # type: ignore[union-attr]
            c.begin(server.retrieve(c.number, server.version, server.version))
            c.finish()
            c.acknowledged(server.receive(c.encode(DELTA), 0.0).receipt)
        return server.version

    assert play_round() == 1
    clients[0] = Client(config, 0, 1.0, 1.0)
    assert play_round() == 2 and server.counts.duplicates == 1
    assert play_round() == 3 and server.counts.duplicates == 1
    assert server.last_taken(0) == 2


def test_a_lost_model_frame_is_noticed_and_the_model_sent_in_full() -> None:
    """A downlink of differences: the client lost what it held, says so, and gets the model anew."""
    algorithm = Algorithm(pace=Immediate(1), local=SGD(lr=0.5, steps=4), down=Difference(TopK(1 / 8)))
    initial, delta = np.zeros(64), np.linspace(1, 2, 64)
    server, config = Server(algorithm, initial, 1), ClientConfig.of(algorithm, initial, seed=0)
    c = Client(config, 0, 1.0, 1.0)
    for _ in range(2):
        server.dispatch(0.0)
        c.begin(replace(server.retrieve(0, server.version, server.version), model=None))
        c.finish()
        c.acknowledged(server.receive(c.encode(delta), 0.0).receipt)
    server.dispatch(0.0)
    c.state.held = None
    difference = replace(server.retrieve(0, 2, 2), model=None)
    with pytest.raises(ResyncError):
        c.begin(difference)
    assert consistent(c) and c.ready()
    receipt, steps = server.receive(c.resync(difference), 0.0)
    assert (receipt.accepted, steps, server.counts.resyncs) == (False, (), 1)
    session = c.begin(replace(server.retrieve(0, 2, 2), model=None))
    assert session.start.tolist() == server.model.tolist()
    c.finish()
    assert server.receive(c.encode(delta), 0.0).accepted


def test_a_model_without_its_control_begins_no_session() -> None:
    c = client(Rounds(), correction=Scaffold())
    with pytest.raises(KeyError):
        c.begin(parcel())
    assert consistent(c) and c.ready() and c.state.sessions == 0
