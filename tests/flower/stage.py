"""Flower's own programs on this machine: SuperLink, SuperNodes, `flwr run`. Whatever was started is ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedpace import Algorithm, deploy, simulate
from fedpace.deploy.flower.templates import new_app
from fedpace.deploy.projects.program import Program
from fedpace.deploy.projects.settings import read_settings
from fedpace.deploy.replay import Replay

CLIENTS, NAME = 4, "study"
LIGHT = """\
import numpy as np
from fedpace.tasks import quadratics

def task():
    return quadratics(np.arange(4.0 * 30).reshape(4, 30) % 7 / 8, weights=[1, 2, 3, 4])
"""  # a client.py without torch: every message to a SuperNode is a new process
PATIENCE_S = 600.0  # of a test, for what takes seconds
PROGRAMS = Path(sys.executable).parent
OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "OMP_NUM_THREADS": "1",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """The condition's value once it is true."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what} did not happen within {PATIENCE_S:g} s")


class Stage:
    """One SuperLink, its nodes, and the app of `fedpace deploy new --flower`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.app, self.place = folder / NAME, folder / "place"
        new_app(self.app)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.last = ""  # Flower's id of the last run
        self.env = os.environ | OFFLINE | {"FLWR_HOME": str(folder / "flwr")}
        self.env |= {"FEDPACE_HOME": str(folder / "home"), "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
        self.connect("stage", self.port)

    def lighten(self) -> None:
        (self.app / "client.py").write_text(LIGHT, encoding="utf-8")

    def connect(self, name: str, port: int, root: Path | None = None) -> None:
        """A connection that `flwr` knows by this name."""
        secure = "insecure = true" if root is None else f'root-certificates = "{root}"'
        text = (
            f'[superlink]\ndefault = "{name}"\n[superlink.{name}]\naddress = "127.0.0.1:{port}"\n{secure}\n'
        )
        (self.folder / "flwr").mkdir(exist_ok=True)
        (self.folder / "flwr" / "config.toml").write_text(text, encoding="utf-8")

    # ------------------------------------------------------------ processes

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                [str(PROGRAMS / words[0]), *words[1:]],
                env=self.env,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )
        self.processes[name] = process
        return process

    def superlink(self, *words: str, secure: tuple[str, ...] = ("--insecure",)) -> None:
        address = ("--host", "127.0.0.1", "--port", str(self.port))
        self.start("superlink", "flower-superlink", *secure, *address, *words)
        self.wait_for_log("superlink", "Uvicorn running")

    def supernode(self, client: int, *words: str, secure: tuple[str, ...] = ("--insecure",)) -> None:
        config = f'client={client} folder="{self.folder / f"state-{client}"}"'
        at = ("--superlink", f"127.0.0.1:{self.port}", "--port", str(free_port()))
        self.start(f"node-{client}", "flower-supernode", *secure, *at, "--node-config", config, *words)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def said(self, name: str) -> str:
        return self.log(name).read_text(encoding="utf-8", errors="replace")

    def wait_for_log(self, name: str, text: str) -> None:
        wait_until(lambda: text in self.said(name), f"{name} saying {text!r}")

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """The process and all that it started; itself first, or it would replace them."""
        process = self.processes.pop(name)
        for each in [process.pid, *children(process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, how)
        process.wait()

    def close(self) -> None:
        for name in reversed(list(self.processes)):
            self.kill(name)

    # ------------------------------------------------------------ runs

    def flwr(self, *words: str) -> str:
        done = subprocess.run(
            [str(PROGRAMS / "flwr"), *words],
            env=self.env,
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def begin(self, name: str, algorithm: str, rounds: int, *words: str, in_order: bool = False) -> str:
        """Begin a run, or continue it; Flower's id of it."""
        config: dict[str, Any] = {"name": name, "folder": str(self.place), "algorithm": algorithm}
        config |= {"rounds": rounds, "in-order": in_order}
        file = self.folder / "config.toml"  # texts with quotes do not pass on the command line
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in config.items()]
        file.write_text("".join(lines), encoding="utf-8")
        out = self.flwr("run", str(self.app), "stage", "--run-config", str(file), "--format", "json", *words)
        self.last = str(json.loads(out[out.index("{") :])["run-id"])
        return self.last

    def runs(self, name: str) -> Path:
        return self.place / "runs" / name

    def finished(self, name: str) -> Path:
        """The run's folder, once it is over."""
        result = self.runs(name) / "run.json"
        wait_until(lambda: result.exists() or self.has_failed(), f"the end of {name}")
        assert result.exists(), self.flwr("log", self.last, "stage", "--show")
        return result.parent

    def has_failed(self) -> bool:
        """Whether the SuperLink says so of the last run; it may be restarting itself, and then says nothing."""
        words = [str(PROGRAMS / "flwr"), "ls", "stage", "--run-id", self.last, "--format", "json"]
        asked = subprocess.run(words, env=self.env, capture_output=True, text=True, cwd=self.folder)
        time.sleep(5)
        return "finished:failed" in asked.stdout

    def steps(self, name: str) -> int:
        """Server steps in the run's journal by now, of a copy that nobody writes to."""
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        try:
            shutil.copytree(self.runs(name), copy)
            return len(deploy.replay(copy).run.history)
        except Exception:
            return 0  # not begun yet, or copied while a file was renamed

    # ------------------------------------------------------------ what it must equal

    def algorithm(self, text: str) -> Algorithm:
        from dataclasses import replace

        return replace(read_settings(self.app), algorithm=text).built({})

    def task(self) -> Any:
        return Program(self.app / "client.py").whole_task(CLIENTS)

    def simulated(self, text: str, rounds: int) -> bytes:
        run = simulate(self.algorithm(text), self.task(), rounds=rounds, seed=0, evaluate_every=None)
        return run.model.tobytes()

    def replayed(self, name: str) -> Replay:
        return deploy.replay(self.runs(name), self.task())


def children(pid: int) -> list[int]:
    """All processes below this one."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    below, found = {pid}, []
    while below:
        below = {child for child, parent in parents if parent in below} - set(found)
        found += sorted(below)
    return found
