"""A server and its clients in one process, which a test kills: python victim.py FOLDER ALGORITHM ROUNDS."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.deploy.deployed import CLIENTS, SAMPLES, SEED, TASK, VARIANTS

from fedpace import Run
from fedpace.deploy import JournalLimits, join_async, serve
from fedpace.deploy.local import LocalNetwork
from fedpace.deploy.transport import ServerTransport


def main(folder: str, algorithm: str, rounds: str) -> Run:
    place, clients = Path(folder), set()

    async def listen() -> ServerTransport:
        network = LocalNetwork()
        for number in range(CLIENTS):
            joining = join_async(TASK, network.client(number), data=number, folder=place / f"client-{number}")
            clients.add(asyncio.ensure_future(joining))
        return network.server

    options = {"clients": CLIENTS, "seed": SEED, "samples": SAMPLES, "evaluate_every": None}
    limits = JournalLimits(every_s=0.05)
    return serve(
        VARIANTS[algorithm], TASK, listen, place / "server", rounds=int(rounds), journal=limits, **options
    )


if __name__ == "__main__":
    run = main(*sys.argv[1:])
    print(len(run.history), run.summary["model_sha256"], run.stopped)
