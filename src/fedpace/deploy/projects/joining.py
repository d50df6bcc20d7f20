"""A client's machine: its bundle, its program and its own state joined."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np

from fedpace.deploy.identity.bundles import Bundle
from fedpace.deploy.identity.enrolment import split_address
from fedpace.deploy.projects.program import Program
from fedpace.deploy.running import join
from fedpace.deploy.websocket.client import WebsocketClient

Connect = Callable[[], Awaitable[WebsocketClient]]


def connecting(bundle: Bundle, passphrase: str | None = None) -> Connect:
    """Opens a connection to the bundle's server, as the bundle's client."""
    host, port = split_address(bundle.server)
    context = bundle.context(passphrase)

    async def connect() -> WebsocketClient:
        transport = WebsocketClient(bundle.client, host, port, context=context, rng=np.random.default_rng())
        transport.start()
        return transport

    return connect


def connecting_insecurely(address: str, client: int) -> Connect:
    """Opens a connection without certificates, to a server on this machine."""
    host, port = split_address(address)

    async def connect() -> WebsocketClient:
        transport = WebsocketClient(client, host, port, context=None, rng=np.random.default_rng())
        transport.start()
        return transport

    return connect


def join_study(
    program: Program,
    connect: Connect,
    client: int,
    folder: Path | None,
    expect: str | None = None,
    give_up_after_s: float | None = None,
) -> str:
    """Take part with this machine's data until the run is over; why it ended."""
    task, data = program.local_task(client)
    owner = program.owner(expect)
    return join(task, connect, data=data, owner=owner, folder=folder, give_up_after_s=give_up_after_s)
