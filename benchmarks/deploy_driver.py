"""Driver, journal and transport together: python benchmarks/deploy_driver.py [--messages N] [--updates N]

A run of FedAsync on quadratics whose model and updates have 10 kB, over the built-in transport with mutual TLS; clients
live in other processes and are those of a deployment, local training and all.

    messages    20 clients: milliseconds per message, half of them up, with the journal; and without its flushes, whose
                time is measured apart
    updates     500 connections from four processes: updates per second, with the journal and without one
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from deploy_load import PROCESSES, Load, a_client

from fedpace import algorithms
from fedpace.deploy import genesis, join_async
from fedpace.deploy.journal import Journal, NoJournal
from fedpace.deploy.journal.disk_journal import DiskJournal
from fedpace.deploy.journal.files import DiskFile, DiskFiles
from fedpace.deploy.plan import RunPlan
from fedpace.deploy.serving import Serving
from fedpace.deploy.terms import Terms
from fedpace.tasks import quadratics

VALUES = 1250  # of 8 bytes
TASK = quadratics(np.ones((1, VALUES)))


class TimedFlushes(DiskFile):
    """Adds up what flushing takes."""

    seconds = 0.0

    def sync(self) -> None:
        began = time.perf_counter()
        super().sync()
        TimedFlushes.seconds += time.perf_counter() - began


class TimedFiles(DiskFiles):
    def create(self, name: str) -> DiskFile:
        return TimedFlushes(self.folder / name)


class DrivenLoad(Load):
    """Clients that train."""

    def start(self, port: int) -> None:
        for part in range(min(PROCESSES, self.clients)):
            names = json.dumps(self.bundles[part::PROCESSES])
            command = [sys.executable, __file__, "--join", names, "--port", str(port)]
            self.processes.append(subprocess.Popen(command))


async def join_all(bundles: list[str], port: int) -> None:
    async def one(path: str) -> None:
        client = a_client(path, port)
        client.start()
        await join_async(TASK, client)

    await asyncio.gather(*map(one, bundles))


async def seconds_of(folder: Path, clients: int, updates: int, *, journalled: bool) -> float:
    """From the first server step to the last: every update is a step."""
    algorithm = algorithms.fedasync(concurrency=clients, client_lr=0.1, steps=1)
    terms = Terms(plan=RunPlan.of(algorithm), clients=clients, rounds=updates, wait_for=clients)
    begun = genesis.new_run(TASK.name, terms, TASK.initial(0), TASK.layout)
    coordinator, times = begun.coordinator(), []
    journal: Journal = NoJournal()
    if journalled:
        journal = DiskJournal(TimedFiles(folder), begun.run).opened(coordinator)
    load = DrivenLoad(folder, clients, talk=True)
    server = await load.serve(0)
    load.start(server.address[1])
    try:
        serving = Serving(
            coordinator,
            server,
            journal,
            incarnation=1,
            told=[lambda *_: times.append(time.perf_counter())],
            linger_s=0.0,
        )
        await serving.run()
    finally:
        load.stop()
    return times[-1] - times[0]


def measured(clients: int, updates: int, *, journalled: bool) -> tuple[float, float]:
    """Seconds, and those of flushing among them."""
    TimedFlushes.seconds = 0.0
    with tempfile.TemporaryDirectory() as folder:
        taken = asyncio.run(seconds_of(Path(folder), clients, updates, journalled=journalled))
    return taken, TimedFlushes.seconds


def messages(updates: int, clients: int = 20) -> None:
    taken, flushing = measured(clients, updates, journalled=True)
    each, apart = (1e3 * seconds / (2 * updates) for seconds in (taken, max(taken - flushing, 0.0)))
    print(
        f"{clients} clients: {each:.2f} ms per message of 10 kB, {apart:.2f} ms without flushes", flush=True
    )


def rates(updates: int, clients: int, repeats: int) -> None:
    """With and without in turn, so that a busy machine slows both; medians."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(repeats):
        for journalled, rates in found.items():
            rates.append(updates / measured(clients, updates, journalled=journalled)[0])
    with_it, without = (statistics.median(found[journalled]) for journalled in (True, False))
    print(
        f"{clients} connections: {with_it:,.0f} updates/s with the journal, {without:,.0f} without:"
        f" {with_it / without:.2f} of it (medians of {repeats})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=2000, metavar="UPDATES", help="0: not measured")
    parser.add_argument("--updates", type=int, default=5000, help="0: not measured")
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--join", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.join:
        asyncio.run(join_all(json.loads(args.join), args.port))
        return
    if args.messages:
        messages(args.messages)
    if args.updates:
        rates(args.updates, args.connections, args.repeats)


if __name__ == "__main__":
    main()
