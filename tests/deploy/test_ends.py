"""How the two ends end: a client without a server, what was refused, and what the logs say."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path

import pytest
from tests.deploy.deployed import CLIENTS, ROUNDS, TASK, VARIANTS, Bed

from fedpace.deploy import join_async
from fedpace.deploy.joining import Joining
from fedpace.deploy.local import LocalNetwork
from fedpace.deploy.transport import Arrived
from fedpace.errors import ConfigError


def test_a_client_gives_up_after_so_long_without_a_server() -> None:
    async def alone() -> str:
        network = LocalNetwork()
        await network.server.close()
        return await join_async(TASK, network.client(0), give_up_after_s=0.01)

    assert asyncio.run(alone()) == "no server for 0.01 s: the run is over, or cannot be reached"


def test_a_client_whose_server_ends_while_it_is_away_ends_as_well() -> None:
    async def left_alone() -> str:
        network = LocalNetwork()
        joining = Joining(TASK, network.client(0))
        running = asyncio.ensure_future(joining.run())
        while not isinstance(await network.server.next(), Arrived):  # its greeting
            pass
        joining.give_up_after_s = 0.01
        await network.server.close()
        return await running

    assert asyncio.run(left_alone()).startswith("no server for 0.01 s")


def test_a_connection_ends_the_waiting() -> None:
    async def connected() -> None:
        joining = Joining(TASK, LocalNetwork().client(0), give_up_after_s=3600.0)
        running = asyncio.ensure_future(joining.run())
        while joining._giving_up is None or not joining._giving_up.cancelled():
            await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(connected())


def test_seconds_to_give_up_after_must_be_positive() -> None:
    async def wrong() -> None:
        await join_async(TASK, LocalNetwork().client(0), give_up_after_s=0.0)

    with pytest.raises(ConfigError, match="give_up_after_s must be > 0; got 0"):
        asyncio.run(wrong())


def test_the_run_says_what_was_refused(tmp_path: Path) -> None:
    async def strangers(bed: Bed) -> None:
        bed.network.clients[0].send([b"no message of ours, however long it may be, is like this one"])
        await bed.reached(1)

    run = Bed(VARIANTS["fedavg"], tmp_path).run(strangers)
    assert run.summary["refused"]["no message of this protocol, or of another version of it"] == 1


def test_logs_say_who_and_when_and_hold_no_numbers_of_the_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "fedpace"):
        run = Bed(VARIANTS["fedavg"], tmp_path).run()
    said = [record.getMessage() for record in caplog.records if record.name.startswith("fedpace")]
    steps = [f"step {step.version} from clients {sorted(set(step.clients))}" for step in run.history]
    assert [line for line in said if line.startswith("step")] == steps and len(steps) == ROUNDS
    assert f"client {CLIENTS - 1} greets" in said
    known = r"step|client \d+ (greets|is away)|connected|no connection|trains on model \d+, \d+ steps|ended"
    assert all(re.match(known, line) for line in said)
    assert not any("." in word for line in said for word in line.split() if word[0].isdigit())
