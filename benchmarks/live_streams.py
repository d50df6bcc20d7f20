"""What watching costs the process that simulates: its processor seconds with 50 event streams open, and without.

The same number of server steps is simulated each time, by `fedpace run` in a process of its own, saved in a run store
that `fedpace ui` serves; 50 streams of the run's events are read by this script. Repetitions alternate.

python benchmarks/live_streams.py [REPEATS] [ROUNDS]
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

STREAMS = 50
SIZES = ("--clients", "50", "--model", "mlp", "--set", "epochs=2", "--workers", "1")


def started(home: Path) -> tuple[subprocess.Popen[str], int]:
    """The page's server, and its port."""
    command = [sys.executable, "-m", "fedpace", "ui", "--port", "0"]
    env = {**os.environ, "FEDPACE_HOME": str(home)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline().split(":")[2].split("/")[0])


def begun(home: Path, name: str, rounds: int) -> subprocess.Popen[bytes]:
    words = ["fedavg", *SIZES, "--rounds", str(rounds), "--name", name, "--quiet"]
    return subprocess.Popen(
        [sys.executable, "-m", "fedpace", "run", *words], env={**os.environ, "FEDPACE_HOME": str(home)}
    )


def wait_for(port: int, name: str) -> None:
    """Until the run is in the store."""

    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", f"/api/runs/{name}")
        if connection.getresponse().status == 200:
            return
        time.sleep(0.1)


def listen(port: int, name: str, heard: list[int]) -> None:
    """Read one stream until the run has ended."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", f"/api/events/run/{name}")
    answer = connection.getresponse()
    while line := answer.readline():
        if line.startswith(b"data: "):
            event = json.loads(line[6:])
            heard.append(len(event["steps"]["version"]))
            if event["run"]["state"] != "running":
                return


def processor_seconds(process: subprocess.Popen[bytes]) -> float:
    _, _, used = os.wait4(process.pid, 0)
    return used.ru_utime + used.ru_stime


def one(home: Path, port: int, name: str, rounds: int, streams: int) -> tuple[float, int]:
    process = begun(home, name, rounds)
    heard: list[int] = []
    threads = []
    if streams:
        wait_for(port, name)
        threads = [threading.Thread(target=listen, args=(port, name, heard)) for _ in range(streams)]
    for thread in threads:
        thread.start()
    spent = processor_seconds(process)
    for thread in threads:
        thread.join()
    return spent, len(heard)


def main() -> None:
    repeats, rounds = (int(word) for word in [*sys.argv[1:], "5", "400"][:2])
    with tempfile.TemporaryDirectory() as folder:
        server, port = started(Path(folder))
        alone, watched, events = [], [], 0
        try:
            one(Path(folder), port, "first", 10, 0)  # compiles what is compiled once
            for number in range(repeats):
                alone.append(one(Path(folder), port, f"alone-{number}", rounds, 0)[0])
                spent, heard = one(Path(folder), port, f"watched-{number}", rounds, STREAMS)
                watched.append(spent)
                events += heard
        finally:
            server.terminate()
            server.wait()
    before, after = statistics.median(alone), statistics.median(watched)
    print(f"{rounds} server steps, processor seconds of the simulating process, medians of {repeats}")
    more = 100 * (after / before - 1)
    print(f"alone {before:.2f}, with {STREAMS} streams {after:.2f}: {more:+.1f} % ({events} events)")


if __name__ == "__main__":
    main()
