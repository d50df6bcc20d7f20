"""A model frame that is lost on its way down: noticed at the next one, and made good by a resync."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedpace import algorithms as a
from fedpace.client import Client, ClientConfig
from fedpace.compute import Request
from fedpace.link import CompressedModel, Difference, ResyncError, ScaledSign, TopK
from fedpace.server import Parcel, Send, Server
from fedpace.tasks import quadratics

TASK = quadratics([[1.0, 2.0, -1.0, 4.0], [3.0, 0.0, 1.0, -2.0]])
DOWNLINKS = [
    Difference(TopK(0.25)),
    Difference(TopK(0.25), first="seed"),
    Difference(TopK(0.25), reference="shared"),
    Difference(ScaledSign()),
    CompressedModel(TopK(0.25)),
    CompressedModel(TopK(0.25), first="zero"),
    CompressedModel(TopK(0.5), rule="aa", tau=0.4),
    CompressedModel(ScaledSign(), tau=0.3),
]


def start(down: object) -> tuple[Server, dict[int, Client]]:
    algorithm = replace(a.fedavg(client_lr=0.25, steps=2), down=down)
    x = TASK.initial(0)
    config = ClientConfig.of(algorithm, x, 0)
    clients = {number: Client(config, number, 1.0, 1.0) for number in range(2)}
    return Server(algorithm, x, 2, last=20), clients


def sent(server: Server) -> dict[int, Parcel]:
    """One round's models as they arrive over a network: frames alone."""
    orders = [order for order in server.dispatch(0.0) if isinstance(order, Send)]
    parcels = {order.client: server.retrieve(order.client, order.version, order.round) for order in orders}
    return {number: replace(parcel, model=None) for number, parcel in parcels.items()}


def train(server: Server, client: Client, parcel: Parcel) -> None:
    session = client.begin(parcel)
    request = Request(
        client=client.number,
        data=client.number,
        session=session.number,
        start=session.start,
        version=session.version,
        local=server.algorithm.local,
        steps=session.steps,
        seed=0,
    )
    client.finish()
    receipt, _ = server.receive(client.encode(TASK.solve(request)), 0.0)
    assert client.acknowledged(receipt) is False and receipt.accepted


@pytest.mark.parametrize("down", DOWNLINKS, ids=repr)
def test_a_lost_frame_is_noticed_and_the_model_comes_again_in_full(down: object) -> None:
    server, clients = start(down)
    for _ in range(2):
        for number, parcel in sent(server).items():
            train(server, clients[number], parcel)
    train(server, clients[1], sent(server)[1])  # what went to client 0 is lost
    server.lost(0)
    parcel = sent(server)[0]
    with pytest.raises(ResyncError):
        clients[0].begin(parcel)
    receipt, steps = server.receive(clients[0].resync(parcel), 0.0)
    assert (receipt.accepted, steps, server.counts.resyncs) == (False, (), 1)
    again = replace(server.retrieve(0, parcel.version, parcel.round), model=None)
    session = clients[0].begin(again)
    whole = getattr(down, "first", "dense") == "dense" and getattr(down, "reference", "") != "shared"
    if whole:  # the others start from what their codec makes of it
        np.testing.assert_array_equal(session.start, server.model)


def test_nothing_is_noticed_where_nothing_is_remembered() -> None:
    server, clients = start(a.fedavg().down)
    train(server, clients[1], sent(server)[1])
    server.lost(0)
    assert clients[0].begin(sent(server)[0]).version == 1
