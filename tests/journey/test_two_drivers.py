"""The same machines under another driver: given the same order of messages, the same bits."""

import numpy as np
import pytest

import fedpace
from fedpace import algorithms as a
from fedpace.client import Client, Kit
from fedpace.compute import Request
from fedpace.server import Deliver, Server, Update
from fedpace.tasks import quadratics

TASK = quadratics(
    [[1.0, 2.0, -1.0], [3.0, 0.0, 1.0], [0.5, -2.0, 4.0], [2.0, 2.0, 2.0]], weights=[1, 2, 3, 4]
)
STEPS = {"client_lr": 0.25, "steps": 3}
ALGORITHMS = [
    a.fedavg(clients_per_round=2, **STEPS),
    a.fedgm(clients_per_round=3, weighting="samples", **STEPS),
    a.fednova(**STEPS | {"steps": [1, 2, 3, 4]}),
    a.scaffold(clients_per_round=2, **STEPS),
    a.fednova_vr(**STEPS),
    a.ca2fl(buffer=2, concurrency=2, **STEPS),
    a.mf_ca2fl(buffer=2, concurrency=2, cache_bits=4, **STEPS),
    a.fedcams(codec="sign", **STEPS),
    a.fednlaca(codec="quant:3", tau=0.9, **STEPS),
    a.fedbaca(codec="topk:1/3", down_codec="topk:2/3", tau=0.3, **STEPS),
    a.two_way(codec="topk:1/3", down_codec="topk:1/3", memory="ef21", tau=0.5, **STEPS),
]


def by_hand(algorithm: fedpace.Algorithm, rounds: int, seed: int) -> np.ndarray:
    """A driver without a clock: deliver, solve, upload, one client after another, from frames alone."""
    x = TASK.initial(seed)
    server = Server(algorithm, x, TASK.clients, seed=seed, last=rounds)
    kit = Kit.of(algorithm, x, seed)
    clients = {number: Client(kit, number, TASK.samples(number), 1.0) for number in range(TASK.clients)}
    while server.version < rounds:
        messages = [m for m in server.dispatch(0.0) if isinstance(m, Deliver)]
        for message in messages:  # a client holds its version until its update is answered
            server.state.versions.hold(message.version)
        updates = [
            train(server, clients[m.client], m, seed) for m in sorted(messages, key=lambda m: m.client)
        ]
        for update in updates:
            if server.version < rounds:
                clients[update.client].acknowledged(server.receive(update, 0.0))
    return server.model


def train(server: Server, client: Client, message: Deliver, seed: int) -> Update:
    session = client.begin(server.retrieve(message.client, message.version, message.round), None)
    request = Request(
        client=client.number,
        session=session.number,
        start=session.start,
        version=session.version,
        local=server.algorithm.local,
        steps=session.steps,
        seed=seed,
        correction=session.correction,
    )
    assert client.finish()
    return client.encode(TASK.solve(request))


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)
def test_simulation_and_a_driver_without_a_clock_agree_bit_for_bit(algorithm):
    simulated = fedpace.simulate(algorithm, TASK, rounds=7, seed=5, evaluate_every=None)
    assert np.array_equal(simulated.model, by_hand(algorithm, 7, 5))
