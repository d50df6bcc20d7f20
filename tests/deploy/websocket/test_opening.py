from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from deploy.pairs import joining, message, run, serving, until
from fedpace.deploy.identity.bundles import read_bundle
from fedpace.deploy.identity.enrolment import Identities
from fedpace.deploy.transport import Connected
from fedpace.deploy.websocket.events import EventQueue
from fedpace.deploy.websocket.opening import join, join_insecurely, listen
from fedpace.errors import ConfigError


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_bundle_leads_to_its_server(tmp_path: Path) -> None:
    async def check() -> None:
        address, now = f"127.0.0.1:{free_port()}", datetime.now(UTC)
        study = Identities(tmp_path / "identities")
        study.create("hearts", address, [], now)
        bundle = read_bundle(study.enrol_with_key(2, now, bundle_passphrase="words"), passphrase="words")
        server = await listen(address, 3, identities=study.folder, spool_folder=tmp_path / "spool")
        client = join(bundle, passphrase="words", rng=np.random.default_rng(0))
        assert await client.next() == await server.next() == Connected(2)
        client.send([b"hello"])
        assert await message(server) == b"hello"
        await client.close()
        await server.close()

    run(check())


def test_without_identities_on_this_machine(tmp_path: Path) -> None:
    async def check() -> None:
        address = f"localhost:{free_port()}"
        server = await listen(address, 3, identities=None, spool_folder=tmp_path)
        client = join_insecurely(1, address, rng=np.random.default_rng(0))
        assert await server.next() == Connected(1)
        await client.close()
        await server.close()
        with pytest.raises(ConfigError, match="on this machine"):
            await listen("0.0.0.0:1", 3, identities=None, spool_folder=tmp_path)
        with pytest.raises(ConfigError, match="on this machine"):
            join_insecurely(1, "example.org:1", rng=np.random.default_rng(0))

    run(check())


def test_a_failure_of_ours_is_raised_where_the_driver_waits() -> None:
    async def check() -> None:
        async def fails() -> None:
            raise ZeroDivisionError("ours")

        events = EventQueue()
        task = events.watch(fails())
        with pytest.raises(ZeroDivisionError, match="ours"):
            await events.get()
        assert task.done()

    run(check())


def test_strangers_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        async with serving() as server, joining(0, server.address[1]) as client:
            await client.next()
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(b"GET / nonsense\r\n\r\n")
            with contextlib.suppress(OSError):
                await reader.read()
            writer.transport.abort()
            await until(lambda: server.rejected["http"] == 1)

    with caplog.at_level(logging.WARNING):
        run(check())
    assert caplog.records == []
