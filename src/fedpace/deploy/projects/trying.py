"""A study on one machine: the server here, every client a process of its own, real certificates and bytes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from fedpace.deploy.identity.enrolment import ADDRESS, Identities
from fedpace.deploy.projects.serving import ServedRun, StudyFolder, serve_study
from fedpace.deploy.projects.settings import CLIENT_FILE
from fedpace.deploy.websocket.server import WebsocketServer
from fedpace.disk.files import write
from fedpace.errors import FedpaceError
from fedpace.record import Run

LOOPBACK = "127.0.0.1"
GOODBYE_S = 20.0  # for clients to leave by themselves


def try_study(study: StudyFolder, which: ServedRun) -> Run:
    """Run the study on this machine, every client a process, under certificates made for it."""
    with tempfile.TemporaryDirectory(prefix="fedpace-try-") as made, contextlib.ExitStack() as ended:
        identities = Identities(Path(made) / "identities")
        identities.create(study.settings.name, f"{LOOPBACK}:1", [], datetime.now(UTC))
        opened = study.listening(identities, (LOOPBACK, 0))

        async def listen() -> WebsocketServer:
            transport = await opened()
            write(identities.folder / ADDRESS, f"{LOOPBACK}:{transport.address[1]}\n".encode())
            ended.enter_context(_clients(study, identities, study.settings.clients))
            return transport

        return serve_study(study, listen, which, identities=identities)


@contextlib.contextmanager
def _clients(study: StudyFolder, identities: Identities, count: int) -> Iterator[None]:
    """`fedpace join` for every client; killed if they do not leave by themselves."""
    program = (study.settings.folder / CLIENT_FILE).resolve()
    logs = identities.folder.parent
    running = []
    for client in range(count):
        bundle = identities.enrol_with_key(client, datetime.now(UTC))
        words = ["join", str(bundle), "--data", str(program), "--state", str(logs / f"state-{client}")]
        with (logs / f"client-{client}.log").open("wb") as log:
            running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "fedpace", *words], stdout=log, stderr=subprocess.STDOUT
                )
            )
    try:
        yield
    finally:
        _ended(running, logs)


def _ended(running: Sequence[subprocess.Popen[bytes]], logs: Path) -> None:
    for process in running:
        try:
            process.wait(GOODBYE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    failed = [client for client, process in enumerate(running) if process.returncode not in (0, -9)]
    if failed:
        said = (
            (logs / f"client-{failed[0]}.log")
            .read_text(encoding="utf-8", errors="replace")
            .strip()
            .splitlines()
        )
        raise FedpaceError(f"client {failed[0]} failed: {said[-1] if said else 'no output'}")
