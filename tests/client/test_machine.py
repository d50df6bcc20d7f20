"""The client driven by hand: its buffers, the end of a session, and what it remembers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from fedpace.aggregate import Pooled
from fedpace.algorithm import Algorithm
from fedpace.client import Client, ClientConfig, Delivery, Session, Times
from fedpace.client.life import TrainingState
from fedpace.link import Dense, Difference, Plain, ScaledSign
from fedpace.link.protocol import Context
from fedpace.local import SGD, Scaffold
from fedpace.pace import Arrivals, Interrupting, Pace, Polled, Rounds
from fedpace.server import Parcel, Receipt, Server
from fedpace.vector import Vector

TAKEN, REFUSED = Receipt(True, taken=1), Receipt(False, "no")


def client(pace: Pace, steps: int = 4, **rules: Any) -> Client:
    algorithm = Algorithm(pace=pace, local=SGD(lr=0.5, steps=steps), **rules)
    return Client(ClientConfig.of(algorithm, np.zeros(2), seed=0), number=1, samples=5.0, step_s=1.0)


def parcel(version: int = 0, value: float = 1.0, **frames: bytes) -> Parcel:
    model = Dense().encode(np.full(2, value), np.random.default_rng(0))
    return Parcel(version, version, {"model": model, **frames}, Context(round=version))


def trained(c: Client, version: int = 0) -> Session:
    """Begin a session and finish it."""
    session = c.begin(parcel(version))
    c.finish()
    return session


# ---------------------------------------------------------------- receive buffer


def test_a_newer_model_overwrites_the_one_in_the_receive_buffer() -> None:
    c = client(Rounds())
    c.deliver(0, 0)
    c.deliver(3, 3)
    assert c.take() == Delivery(3, 3)
    assert c.take() is None


def test_a_session_starts_from_the_model_as_it_was_decoded() -> None:
    c = client(Rounds())
    session = c.begin(parcel(2, 7.0))
    assert (session.number, session.version, session.round, session.steps) == (1, 2, 2, 4)
    assert session.start.tolist() == [7.0, 7.0]
    c.finish()
    c.encode(np.zeros(2))
    c.acknowledged(TAKEN)
    shared = np.ones(2)  # a driver in the server's process has it decoded already
    assert c.begin(replace(parcel(3), model=shared)).start is shared
    assert c.state.sessions == 2


def test_a_first_model_may_build_on_the_initial_one_which_the_client_makes_itself() -> None:
    algorithm = Algorithm(pace=Rounds(), local=SGD(lr=0.5, steps=1), down=Difference(Dense(), first="seed"))
    initial = np.array([1.0, 2.0])
    server = Server(algorithm, initial, 1)
    c = Client(ClientConfig.of(algorithm, initial, seed=0), 0, 1.0, 1.0)
    server.dispatch(0.0)
    parcel_from_seed = replace(server.retrieve(0, 0, 0), model=None)
    assert "seed" in parcel_from_seed.frames
    assert c.begin(parcel_from_seed).start.tolist() == [1.0, 2.0]


def test_who_is_ready_for_a_session() -> None:
    on_demand, polled, saving = client(Rounds()), client(Polled(2)), client(Polled(2, energy_saving=True))
    for c in (on_demand, polled, saving):
        assert c.ready()
        c.begin(parcel())
        assert not c.ready()
        c.finish()
    assert not on_demand.ready()  # its update is still to be sent
    assert polled.ready()  # its update may be overwritten
    assert not saving.ready()  # it rests until it is asked


# ---------------------------------------------------------------- the end of a session


def test_who_uploads_when_a_session_is_done() -> None:
    for pace, at_once in ((Rounds(), True), (Arrivals(1), True), (Polled(2), False)):
        c = client(pace)
        c.begin(parcel())
        assert c.finish() is at_once
        assert c.state.running is None and c.state.outbox is not None


def test_a_client_that_was_asked_for_uploads_as_soon_as_it_can() -> None:
    c = client(Polled(2))
    assert not c.polled()  # nothing there yet
    c.begin(parcel())
    assert c.finish()
    c.encode(np.zeros(2))
    c.begin(parcel(1))
    assert not c.polled()  # one upload at a time
    assert not c.finish()
    assert c.acknowledged(TAKEN)  # and now the next


def test_an_update_that_lies_ready_is_uploaded_when_asked_for() -> None:
    c = client(Polled(2, energy_saving=True))
    trained(c)
    assert c.state.life.work is TrainingState.RESTING and c.polled()
    c.encode(np.zeros(2))
    assert c.state.life.work is TrainingState.IDLE and not c.is_wanted()
    assert not c.acknowledged(TAKEN)


@pytest.mark.parametrize(
    ("now", "done"), [(0.0, 0), (1.9, 0), (2.0, 0), (2.9, 0), (3.0, 1), (5.999, 3), (6.0, 4), (60.0, 4)]
)
def test_an_interrupted_session_counts_whole_steps(now: float, done: int) -> None:
    """Four steps of one second each, from 2 to 6; the model came at 1."""
    c = client(Interrupting(1, 1.0))
    c.begin(parcel())
    c.state.times = Times(1.0, 2.0, 6.0)
    assert c.interrupt(c.steps_done(now)).steps == done
    assert c.state.running is None


def test_a_step_that_was_just_finished_is_not_lost_by_rounding() -> None:
    c = client(Interrupting(1, 1.0), steps=3)
    c.begin(parcel())
    c.state.times = Times(0.0, 0.0, 3 * 0.1)
    assert c.steps_done(0.1 + 0.1 + 0.1 - 1e-13) == 3


# ---------------------------------------------------------------- going away


def test_leaving_loses_what_is_computed_and_sent() -> None:
    c = client(Arrivals(1))
    trained(c)
    c.encode(np.zeros(2))
    second = trained(c, 1)
    third = c.begin(parcel(2))
    assert [getattr(lost, "number", 1) for lost in c.leave()] == [third.number, second.number, 1]
    assert (c.state.running, c.state.outbox, c.state.upload, c.state.pending) == (None,) * 4
    assert c.leave() == []
    assert c.start_over(2, 2) and not c.start_over(1, 1)
    assert c.take() == Delivery(2, 2)


def test_a_stored_update_survives_an_absence_but_the_question_for_it_does_not() -> None:
    c = client(Polled(2))
    trained(c)
    running = c.begin(parcel(1))
    assert c.polled()
    assert c.leave() == [running]
    assert c.state.outbox is not None and not c.is_wanted()


@pytest.mark.parametrize("pace", [Rounds(), Interrupting(1, 1.0)])
def test_who_trains_only_when_told_to_does_not_start_over(pace: Pace) -> None:
    c = client(pace)
    c.begin(parcel())
    c.leave()
    assert not c.start_over(0, 0) and c.take() is None


# ---------------------------------------------------------------- uploads and memories


@dataclass(frozen=True)
class Counting(Plain):
    """An uplink that counts what it sent; its memory is that number."""

    def init(self, size: int, dtype: Any) -> int:
        return 0

    def send(self, v: Vector, state: Any, context: Context, rng: Any) -> tuple[bytes, Any]:
        return super().send(v, None, context, rng)[0], state + 1

    def resync(self, state: Any) -> int:
        return -1


def test_an_update_says_what_it_is() -> None:
    c = client(Rounds(), up=Counting())
    trained(c, version=3)
    sent = c.encode(np.array([1.0, 2.0]))
    assert (sent.client, sent.session, sent.version, sent.round) == (1, 1, 3, 3)
    assert (sent.steps, sent.a_norm1, sent.samples) == (4, 4.0, 5.0)
    assert Dense().decode(sent.frames["update"], 2).tolist() == [1.0, 2.0]


def test_memories_change_only_when_the_server_has_taken_the_update() -> None:
    c = client(Rounds(), up=Counting())
    taken = Receipt(True, taken=2)
    for receipt, known in ((REFUSED, 0), (taken, 1), (REFUSED, 1), (Receipt(False, resync=True), -1)):
        trained(c)
        c.encode(np.zeros(2))
        assert c.state.upload is not None
        c.acknowledged(receipt)
        assert c.state.up == known and c.state.upload is None


def test_a_session_that_failed_sends_an_empty_update() -> None:
    c = client(Rounds(), up=Counting(ScaledSign()))
    trained(c)
    assert c.encode(np.array([np.nan, 0.0])).frames == {}
    c.acknowledged(TAKEN)
    assert c.state.up == 0  # as if it had not been sent


def test_a_correction_captures_the_control_at_the_start_and_sends_its_own() -> None:
    """SCAFFOLD: c_i+ = c_i - c + (x - y) / (K lr); sent is c_i+ - c_i."""
    c = client(Rounds(), correction=Scaffold())
    control = Dense().encode(np.array([2.0, 0.0]), np.random.default_rng(0))
    session = c.begin(parcel(control=control))
    assert session.correction is not None and session.correction.tolist() == [2.0, 0.0]
    c.finish()
    update = c.encode(np.array([-4.0, 0.0]))  # (x - y) / (4 * 0.5) = 2, minus c = 2
    assert Dense().decode(update.frames["control"], 2).tolist() == [0.0, 0.0]
    c.acknowledged(TAKEN)
    assert c.state.control.tolist() == [0.0, 0.0]


def test_mutual_averaging_sends_the_whole_model_and_goes_on_from_a_mean() -> None:
    """QuAFL with s = 2: Y <- (X + 2 Y) / 3, from a model that no version names."""
    c = client(Interrupting(2, 1.0, averaging=True), aggregate=Pooled(None))
    c.begin(parcel(0, 1.0))
    c.interrupt(4)
    assert not c.goes_on()
    update = c.encode(np.array([2.0, 2.0]))
    assert update.version == -1 and c.goes_on()
    assert Dense().decode(update.frames["update"], 2).tolist() == [3.0, 3.0]
    session = c.begin(parcel(1, 6.0))
    assert session.start.tolist() == [4.0, 4.0] and session.version == -1
    assert not c.goes_on()


def test_a_session_of_no_steps_has_no_weight() -> None:
    c = client(Interrupting(1, 1.0))
    c.begin(parcel())
    c.interrupt(0)
    update = c.encode(np.zeros(2))
    assert (update.steps, update.a_norm1) == (0, 0.0)


def test_client_and_server_understand_each_other() -> None:
    """One round without any driver but this loop."""
    algorithm = Algorithm(pace=Rounds(), local=SGD(lr=0.5, steps=1))
    server = Server(algorithm, np.zeros(2), 2)
    config = ClientConfig.of(algorithm, np.zeros(2), seed=0)
    for order in server.dispatch(0.0):
        c = Client(config, order.client, 1.0, 1.0)  # type: ignore[union-attr]
        c.begin(server.retrieve(c.number, 0, 0))
        assert c.finish()
        receipt, _ = server.receive(c.encode(np.full(2, 1.0 + c.number)), 0.0)
        assert receipt.accepted and not c.acknowledged(receipt)
    assert server.model.tolist() == [1.5, 1.5]


@dataclass(frozen=True)
class Growing(SGD):
    """As many steps as the server has taken, and one."""

    def work(
        self, client: int, round: int, samples: float, seconds_per_step: float, rng: np.random.Generator
    ) -> int:
        return round + 1


def test_a_rule_of_ones_own_is_asked_for_the_work_of_every_session() -> None:
    algorithm = Algorithm(pace=Rounds(), local=Growing(lr=0.5, steps=4))
    mine = Client(ClientConfig.of(algorithm, np.zeros(2), seed=0), number=1, samples=5.0, step_s=1.0)
    assert mine.begin(parcel(version=2)).steps == 3
    assert client(Rounds()).begin(parcel(version=2)).steps == 4
