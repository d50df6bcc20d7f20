"""One client throws anything at a server of every named algorithm: nothing raises, and the others still train.

The honest clients are real ones, driven by the smallest driver that uses the server's contract only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.six_clients import CLIENTS, made

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.client import Client, ClientConfig
from fedpace.errors import RemoteError
from fedpace.link import Dense, Quantize, ScaledSign, TopK
from fedpace.link.wire import frame as wire
from fedpace.local import descend
from fedpace.pace import Interrupting
from fedpace.pace.protocol import Broadcast, Interrupt, Interruptible, Poll, Send
from fedpace.server import Server, Update
from fedpace.server.invariants import assert_sound
from fedpace.vector import Vector

NAMES = algorithms.__all__
SIZE, BAD = 3, CLIENTS - 1  # the last client is the hostile one
CENTRES = np.arange(CLIENTS * SIZE, dtype=float).reshape(CLIENTS, SIZE) / 16
OPTIMUM = CENTRES[:BAD].mean(axis=0)


def small(name: str, **guards: Any) -> Algorithm:
    return replace(made(name, server_period=1.0), **guards)


class Driver:
    """Honest clients train at once when a model reaches them; the hostile one keeps what it is sent."""

    def __init__(self, algorithm: Algorithm, seed: int = 0, claim: dict[str, Any] | None = None) -> None:
        start = np.full(SIZE, 2.0)
        self.server = Server(algorithm, start, CLIENTS, seed=seed)
        config = ClientConfig.of(algorithm, start, seed)
        self.clients = [Client(config, number, 1.0, 1.0) for number in range(CLIENTS)]
        self.now, self.sent, self.claim = 0.0, list[Update](), claim or {}

    def turn(self) -> None:
        """One dispatch, and everything that follows from it at once."""
        self.now += 1.0
        if self.server.wake_at is not None and self.server.wake_at <= self.now:
            self.server.woke(self.now)
        for order in self.server.dispatch(self.now):
            match order:
                case Send(number, version, round):
                    self._train([number], version, round)
                case Broadcast(version, round):
                    self._train(range(CLIENTS), version, round)
                case Poll(number):
                    if self.clients[number].polled():
                        self._upload(self.clients[number])
                case Interrupt(number, version, round):
                    self._interrupt(self.clients[number], version, round)

    def _train(self, numbers: Any, version: int, round: int) -> None:
        for number in numbers:
            client = self.clients[number]
            if not client.ready():
                continue
            try:
                client.begin(self.server.retrieve(number, version, round))
            except RemoteError:  # what was sent is no longer wanted
                continue
            if self._works_until_interrupted:
                continue
            if client.finish() and number != BAD:
                self._upload(client)
            elif number == BAD:
                self._keep(client)

    @property
    def _works_until_interrupted(self) -> bool:
        return isinstance(self.server.algorithm.pace, Interrupting)

    def _interrupt(self, client: Client, version: int, round: int) -> None:
        session = client.state.running
        if session is None:
            self.server.lost(client.number)
            return
        client.interrupt(session.steps)
        if client.number == BAD:
            self._keep(client)
            return
        averages = self.server.algorithm.pace.client == Interruptible(3)
        model = self.server.retrieve(client.number, version, round) if averages else None
        self._upload(client)
        if model is not None:
            client.begin(model)

    def _delta(self, client: Client) -> Vector:
        session = client.state.outbox
        assert session is not None
        local, centre = self.server.algorithm.local, CENTRES[client.number]
        return descend(lambda y, k: y - centre, session.start, local, session.steps, session.correction)

    def _upload(self, client: Client) -> None:
        while True:
            update = client.encode(self._delta(client))
            self.sent.append(update)
            receipt, _ = self.server.receive(replace(update, **self.claim), self.now)
            if not client.acknowledged(receipt):
                return

    def _keep(self, client: Client) -> None:
        """What the hostile client would have sent: it knows how true messages look."""
        self.sent.append(client.encode(self._delta(client)))
        client.leave()

    @property
    def steps(self) -> int:
        return self.server.version


# ---------------------------------------------------------------- arbitrary messages

numbers = st.sampled_from(
    [
        0,
        1,
        -1,
        2,
        3,
        7,
        10**6,
        10**12,
        10**400,
        -(10**400),
        2.0,
        1e300,
        math.nan,
        math.inf,
        -math.inf,
        True,
        None,
    ]
    + ["1", b"1", (), [1], {}, 1j, np.float32(1), np.int64(2), np.array([1.0, 2.0])]
)
vectors = st.sampled_from([0.0, 1.0, -1e3, 1e20, 3e38, 1e150, 1e308, -1.7e308, math.nan, math.inf]).flatmap(
    lambda value: st.sampled_from(
        [np.full(SIZE, value), np.array([value, 0.0, 1.0]), np.full(SIZE + 1, value)]
    )
)
CODECS = (Dense(), Dense("fp16"), TopK(0.5), ScaledSign(), Quantize(4))


def encoded(v: Vector, codec: Any, round: int, ref: int) -> bytes:
    try:
        with np.errstate(all="ignore"):
            return wire.stamp(codec.encode(v, np.random.default_rng(0)), round=round, ref=ref)
    except (RemoteError, ArithmeticError, ValueError):
        return b""


frames = st.one_of(
    st.binary(max_size=60),
    st.builds(encoded, vectors, st.sampled_from(CODECS), st.integers(0, 9), st.integers(0, 9)),
    st.sampled_from([wire.build(kind) for kind in (wire.Kind.SKIP, wire.Kind.RESYNC, wire.Kind.ACK)]),
)
bundles = st.one_of(
    numbers,
    st.just({}),
    st.builds(lambda frame: {"update": frame}, frames),
    st.builds(lambda frame: {"resync": frame}, frames),
    st.builds(lambda one, two: {"update": one, "control": two}, frames, frames),
    st.dictionaries(
        st.sampled_from(["update", "control", "model", "x"]), st.one_of(frames, numbers), max_size=3
    ),
)
NAMES_OF_FIELDS = tuple(field.name for field in fields(Update))
changes = st.dictionaries(
    st.sampled_from(NAMES_OF_FIELDS[:-1]), st.one_of(numbers, st.integers(0, 30)), max_size=2
)
pranks = st.lists(
    st.tuples(
        st.sampled_from(["change", "frames", "cut", "replay", "made up"]),
        changes,
        bundles,
        st.integers(0, 1000),
    ),
    min_size=4,
    max_size=10,
)


def prank(kind: str, changed: dict[str, Any], bundle: Any, at: int, driver: Driver) -> Update:
    """A message of the hostile client, made of a true one where there is one."""
    own = [sent for sent in driver.sent if sent.client == BAD]
    known = own or driver.sent
    s = driver.server
    true = (
        known[at % len(known) if kind == "replay" else -1]
        if known
        else Update(BAD, 1, s.version, s.version, 3, 3.0, 1.0, {})
    )
    true = replace(true, client=BAD)
    fresh = replace(true, session=s.last_taken(BAD) + 1 + at % 3)
    match kind:
        case "replay":
            return true
        case "change":
            return replace(fresh, **changed)
        case "frames":
            return replace(fresh, frames=bundle)
        case "cut":
            return replace(
                fresh, frames={name: data[: at % (len(data) + 1)] for name, data in true.frames.items()}
            )
    return replace(fresh, version=max(0, s.version - at % 3), round=s.version, frames=bundle)


def turns(driver: Driver, most: int) -> Iterator[int]:
    """Until so many steps more, or three times as many turns."""
    until = driver.steps + most
    return itertools.takewhile(lambda _: driver.steps < until, range(3 * most))


def bounded(driver: Driver) -> bool:
    s, limits = driver.server.state, driver.server.algorithm.limits
    of_bad = sum(kept.client == BAD for kept in s.kept)
    few = len(s.versions.models) <= s.versions.keeps + CLIENTS * (limits.versions + 2)
    return of_bad <= limits.waiting and few and len(s.heard) <= CLIENTS and len(s.up) <= CLIENTS


@pytest.mark.parametrize("name", NAMES)
@settings(
    max_examples=6, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(thrown=pranks)
def test_nothing_raises_and_everything_stays_finite_and_bounded(name: str, thrown: list[Any]) -> None:
    driver = Driver(small(name))
    for each in thrown:
        driver.turn()
        answer = driver.server.receive(prank(*each, driver), driver.now)
        assert len(answer.receipt.reason) < 200
        assert_sound(driver.server)
        assert bounded(driver)


@pytest.mark.parametrize("name", NAMES)
@settings(
    max_examples=2, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(thrown=pranks)
def test_the_others_still_train_afterwards(name: str, thrown: list[Any]) -> None:
    """With a clip no message moves the model far; then the hostile client goes, and the honest ones approach."""
    driver = Driver(small(name, clip=8.0))
    for each in thrown:
        driver.turn()
        driver.server.receive(prank(*each, driver), driver.now)
    driver.server.left(BAD)
    far = float(np.linalg.norm(np.full(SIZE, 2.0) - OPTIMUM))
    for _ in turns(driver, 150):
        driver.turn()
    assert float(np.linalg.norm(driver.server.model - OPTIMUM)) < 0.6 * far
    assert_sound(driver.server)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("claim", [{"samples": 0.0}, {"steps": 0, "a_norm1": 0.0}], ids=["samples", "steps"])
def test_clients_that_all_claim_nothing_end_nothing(name: str, claim: dict[str, Any]) -> None:
    driver = Driver(small(name), claim=claim)
    driver.server.left(BAD)
    for _ in range(5):
        driver.turn()
        assert_sound(driver.server)
    assert driver.server.counts.malformed == 0


def test_the_driver_itself_trains() -> None:
    """What it is compared with: without any prank FedAvg is near the optimum of the five honest clients."""
    driver = Driver(small("fedavg"))
    driver.server.left(BAD)
    for _ in turns(driver, 100):
        driver.turn()
    assert float(np.linalg.norm(driver.server.model - OPTIMUM)) < 0.3
