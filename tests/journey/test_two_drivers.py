"""The same machines under another driver: given the same order of messages, the same bits, for every named algorithm.

The second driver knows the contract of server and client and nothing else. It has no clock and no receive buffers: it
follows the order of events that an observer wrote down, and its clients see frames only.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.six_clients import CLIENTS, TASK, made, variants

import fedpace
from fedpace import Algorithm
from fedpace.client import Client, ClientConfig, Session, Times
from fedpace.compute import Request
from fedpace.compute.personal import personal_task
from fedpace.pace.protocol import Interruptible
from fedpace.server import Interrupt, Poll, Server, Update
from fedpace.sim import Observer, Population
from fedpace.sim.simulation import Simulation
from fedpace.vector import Vector

ROUNDS, SEED = 12, 5
DEVICES = Population(solve_s=(1.0, 1.3, 1.7, 2.3, 3.1, 4.7), noise_s=0.2, up_s=0.1, down_s=0.2)
VARIANTS: dict[str, Algorithm] = variants(made) | {
    "fedcams, sign": made("fedcams", codec="sign"),
    "fedgm, by samples": made("fedgm", weighting="samples"),
}


class Order(Observer):
    """Writes down the order of events, and how far interrupted sessions had come."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.steps: dict[tuple[int, int], int] = {}  # (client, session) -> local steps
        self.arrives: dict[tuple[int, int], float] = {}

    def began(self, client: int, session: Session, now: float) -> None:
        if session.version >= 0:  # who averages goes on as part of its interruption
            self.events.append(("begin", client, session.version, session.round))

    def trained(self, client: int, session: Session, times: Times, until: float) -> None:
        self.events.append(("finish", client))

    def uploading(self, client: int, update: Update, now: float, until: float) -> None:
        self.steps[client, update.session] = update.steps
        self.arrives[client, update.session] = until

    def sent_up(self, client: int, update: Update) -> None:
        self.events.append(("receive", client, self.arrives[client, update.session]))

    def dispatched(self, simulation: Simulation) -> None:
        self.events.append(("dispatch", simulation.now))


class Driver:
    """Clients train when told to, upload when their machine says so, and know what was in the frames."""

    def __init__(self, algorithm: Algorithm, steps: dict[tuple[int, int], int]) -> None:
        x, devices = TASK.initial(SEED), DEVICES.bind(CLIENTS, SEED)
        samples = [TASK.samples(client) for client in range(CLIENTS)]
        algorithm = algorithm.bound(TASK.layout, CLIENTS, TASK.samples)
        self.server = Server(algorithm, x, CLIENTS, seed=SEED, last=ROUNDS, samples=samples)
        config = ClientConfig.of(algorithm, x, SEED)
        self.clients = [Client(config, i, samples[i], devices.expected_step_s(i)) for i in range(CLIENTS)]
        self.interruptible = isinstance(algorithm.pace.client, Interruptible)
        self.steps, self.task = steps, personal_task(TASK, algorithm, SEED)
        self.uploads: dict[int, Update] = {}

    def follow(self, events: Sequence[tuple[Any, ...]]) -> Vector:
        for what, *about in events:
            getattr(self, what)(*about)
        return self.server.model

    def dispatch(self, now: float) -> None:
        if self.server.wake_at is not None and self.server.wake_at <= now:
            self.server.woke(now)
        for order in self.server.dispatch(now):
            if isinstance(order, Poll) and self.clients[order.client].polled():
                self.upload(order.client)
            elif isinstance(order, Interrupt):
                self.interrupt(order)

    def begin(self, client: int, version: int, round: int) -> None:
        parcel = self.server.retrieve(client, version, round)
        self.clients[client].begin(replace(parcel, model=None))

    def finish(self, client: int) -> None:
        if not self.interruptible and self.clients[client].finish():
            self.upload(client)

    def interrupt(self, order: Interrupt) -> None:
        client = self.clients[order.client]
        client.interrupt(self.steps[order.client, client.state.sessions])
        self.upload(order.client)
        if client.goes_on():
            self.begin(order.client, order.version, order.round)

    def upload(self, number: int) -> None:
        client = self.clients[number]
        session = client.state.outbox
        assert session is not None
        request = Request(
            client=number,
            data=number,
            session=session.number,
            start=session.start,
            version=session.version,
            local=self.server.algorithm.local,
            steps=session.steps,
            seed=SEED,
            correction=session.correction,
            memory=session.memory,
            beside=session.beside,
        )
        self.uploads[number] = client.encode(self.task.solve(request))

    def receive(self, number: int, now: float) -> None:
        answer = self.server.receive(self.uploads.pop(number), now)
        if self.clients[number].acknowledged(answer.receipt):
            self.upload(number)


@pytest.mark.parametrize("name", VARIANTS)
def test_simulation_and_a_driver_of_the_contract_agree_bit_for_bit(name: str) -> None:
    order = Order()
    options: dict[str, Any] = {"rounds": ROUNDS, "seed": SEED, "evaluate_every": None}
    simulated = fedpace.simulate(VARIANTS[name], TASK, DEVICES, observers=[order], **options)
    driver = Driver(VARIANTS[name], order.steps)
    model = driver.follow(order.events)
    assert driver.server.version == len(simulated.history) == ROUNDS
    assert model.tobytes() == simulated.model.tobytes()
    assert not np.array_equal(model, TASK.initial(SEED))
