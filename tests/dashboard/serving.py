"""Really started servers, and runs made by hand in their stores."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedpace.record.store.store import Store
from fedpace.sim.observer import StepRecord

SOURCE = Path(__file__).parents[2] / "src"
TOKEN = "correct-horse"


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """A process of `fedpace ui`, and the store it reads."""

    home: Path
    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def store(self) -> Store:
        return Store(self.home)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: Any = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        data = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, data, dict(headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def act(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """With the token."""
        return self.ask(method, path, {"Authorization": f"Bearer {TOKEN}", **headers}, body)


def started(home: Path, *words: str) -> Server:
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "fedpace", "ui", "--port", "0", *words]
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "FEDPACE_HOME": str(home)}
    env.pop("FEDPACE_STORE", None)
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return Server(home, process)


def ready(server: Server) -> Server:
    """Once the address is printed."""
    assert server.process.stdout is not None and server.process.stderr is not None
    line = server.process.stdout.readline()
    if not line:
        raise RuntimeError(server.process.stderr.read())
    server.said = [line.rstrip("\n")]
    server.port = int(line.split(":")[2].split("/")[0])
    return server


def ended(server: Server) -> None:
    server.process.terminate()
    server.process.communicate(timeout=20)


def stored(store: Store, name: str, steps: int = 3, state: str = "done", **changed: Any) -> None:
    """A run in the store, with made-up numbers: loss 1/t, accuracy 1 - 1/(t+1)."""
    texts = {"algorithm": "Algorithm()", "task": "digits", "clients": "4", "population": "None", "seed": "0"}
    options: dict[str, Any] = {
        "algorithm": "fedavg",
        "task": "digits",
        "seed": 0,
        "rounds": steps,
        "fingerprint": "0" * 32,
        "experiment": texts,
        "about": {"versions": {"fedpace": "0"}, "machine": {"host": "here"}},
        **changed,
    }
    entry = store.begin(name=name, **options)
    store.add(
        entry.id, [record(version) for version in range(1, steps + 1)], [0.5 * t for t in range(1, steps + 1)]
    )
    if state != "running":
        store.set(entry.id, state)


def record(version: int) -> StepRecord:
    metrics = {"loss": 1 / version, "accuracy": 1 - 1 / (version + 1)}
    return StepRecord(version, 2.0 * version, (0, version % 4), (0, version), 100, 200, metrics)
