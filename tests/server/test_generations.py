"""Memories that do not match: both directions begin with nothing, and corrections begin anew for all clients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.server.hand import server

from fedpace.client import Client, ClientConfig
from fedpace.compute import Request
from fedpace.local import SGD, Scaffold
from fedpace.pace import Rounds
from fedpace.server import Send, Server, Update
from fedpace.tasks import quadratics

TASK = quadratics([[1.0], [4.0], [7.0]])


def trained(s: Server, clients: list[Client], only: tuple[int, ...] = (0, 1, 2)) -> list[Update]:
    """One round's updates, not yet delivered."""
    updates = []
    for order in s.dispatch(0.0):
        assert isinstance(order, Send)
        if order.client in only:
            parcel = s.retrieve(order.client, order.version, order.round)
            session = clients[order.client].begin(replace(parcel, model=None))
            clients[order.client].finish()
            request = Request(
                client=order.client,
                data=order.client,
                session=session.number,
                start=session.start,
                version=session.version,
                local=s.algorithm.local,
                steps=session.steps,
                seed=0,
                correction=session.correction,
            )
            updates.append(clients[order.client].encode(TASK.solve(request)))
    return updates


def answered(s: Server, clients: list[Client], updates: list[Update]) -> None:
    for each in updates:
        clients[each.client].acknowledged(s.receive(each, 0.0).receipt)


def scaffold() -> tuple[Server, list[Client]]:
    s = server(Rounds(), x=(0.0,), local=SGD(lr=0.25, steps=2), correction=Scaffold())
    config = ClientConfig.of(s.algorithm, s.model, 0)
    return s, [Client(config, number, 1.0, 1.0) for number in range(3)]


def mean(clients: list[Client]) -> np.ndarray:
    return np.mean([np.zeros(1) if c.state.control is None else c.state.control for c in clients], axis=0)


def test_after_a_client_lost_its_memory_the_servers_control_is_again_the_mean_of_all() -> None:
    s, clients = scaffold()
    for _ in range(2):
        answered(s, clients, trained(s, clients))
    np.testing.assert_allclose(s.state.control.c, mean(clients), rtol=1e-14)
    s.forget(0)
    clients[0].forget()
    assert (clients[0].state.sessions, clients[0].state.control) == (2, None)
    assert (s.counts.resyncs, s.state.generation) == (1, 1)
    for _ in range(2):
        answered(s, clients, trained(s, clients))
        np.testing.assert_allclose(s.state.control.c, mean(clients), rtol=1e-14)


def test_an_update_of_an_older_generation_is_refused_and_the_round_goes_on_without_it() -> None:
    s, clients = scaffold()
    updates = trained(s, clients)
    s.forget(1)
    answers = [s.receive(each, 0.0) for each in updates]
    assert [answer.accepted for answer in answers] == [False] * 3
    assert "corrections began anew" in answers[0].receipt.reason
    answered(s, clients, updates)
    assert all(client.state.control is None for client in clients)
    answered(s, clients, trained(s, clients))
    assert s.version == 1


def test_what_is_acknowledged_late_does_not_bring_an_old_control_back() -> None:
    s, clients = scaffold()
    [first, *others] = trained(s, clients)
    receipt = s.receive(first, 0.0).receipt
    s.forget(1)
    for each in others:
        s.receive(each, 0.0)
    parcel = s.retrieve(0, *next((o.version, o.round) for o in s.dispatch(0.0) if o.client == 0))
    clients[0].begin(replace(parcel, model=None))
    clients[0].acknowledged(receipt)
    assert receipt.taken == 1 and clients[0].state.control is None


def test_generations_of_the_future_are_malformed() -> None:
    s, clients = scaffold()
    [first, *_] = trained(s, clients)
    assert "generation 1 is none of 0..0" in s.receive(replace(first, generation=1), 0.0).receipt.reason


def test_a_server_whose_clients_are_all_absent_waits_for_them() -> None:
    s, _ = scaffold()
    waiting = Server(s.algorithm, s.model, 3, present=())
    assert (waiting.present, waiting.dispatch(0.0)) == (0, [])
    waiting.joined(1)
    assert [order.client for order in waiting.dispatch(0.0)] == [1]
