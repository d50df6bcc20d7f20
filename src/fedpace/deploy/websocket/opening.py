"""The two calls by which drivers get the built-in transport."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedpace.deploy.identity.bundles import Bundle
from fedpace.deploy.identity.enrolment import Identities, split_address
from fedpace.deploy.websocket.client import WebsocketClient
from fedpace.deploy.websocket.limits import TransportLimits
from fedpace.deploy.websocket.server import WebsocketServer
from fedpace.disk.files import require_folder

LOG = logging.getLogger("fedpace.deploy")


async def listen(
    address: str,
    clients: int,
    *,
    identities: str | Path | None,
    spool_folder: str | Path,
    limits: TransportLimits | None = None,
    alarm: Callable[[str], None] = LOG.warning,
) -> WebsocketServer:
    """A server on HOST:PORT for so many clients. `identities=None` is `--insecure`: on this machine only."""
    study = Identities(Path(identities)) if identities is not None else None
    spool = require_folder(spool_folder, "the spool folder")
    server = WebsocketServer(clients, identities=study, spool_folder=spool, limits=limits, alarm=alarm)
    await server.start(*split_address(address))
    return server


def join(
    bundle: Bundle,
    *,
    passphrase: str | None = None,
    rng: np.random.Generator,
    spool_folder: Path | None = None,
    limits: TransportLimits | None = None,
) -> WebsocketClient:
    """The client of a bundle, connecting from now on."""
    host, port = split_address(bundle.server)
    context = bundle.context(passphrase)
    client = WebsocketClient(
        bundle.client, host, port, context=context, rng=rng, spool_folder=spool_folder, limits=limits
    )
    client.start()
    return client


def join_insecurely(
    client: int, address: str, *, rng: np.random.Generator, limits: TransportLimits | None = None
) -> WebsocketClient:
    """Client `client` without certificates, to a server on this machine."""
    host, port = split_address(address)
    joined = WebsocketClient(client, host, port, context=None, rng=rng, limits=limits)
    joined.start()
    return joined
