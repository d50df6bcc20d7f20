"""What a message costs on Flower: imports, an idle SuperNode, and the time from a letter to its answer.

    PYTHONPATH=. .venv-flower/bin/python benchmarks/flower_messages.py [imports] [idle] [latency]

Imports and idling are seconds of processor, which other work on the machine hardly changes; latency is real time, of
Flower's own echo and of fedpace one after the other.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.flower.stage import OFFLINE, Stage, children, wait_until

REPEATS, IDLE_S, ECHOES, ROUNDS = 5, 60.0, 8, 8
TICK = os.sysconf("SC_CLK_TCK")
STAGES = (
    ("Flower's ClientApp", "import flwr.clientapp, flwr.app"),
    ("fedpace, without training", "import fedpace.deploy.flower.client, fedpace.deploy.flower.grid"),
    ("fedpace, to train (without torch)", "import fedpace.deploy.projects.program, fedpace.compute.protocol"),
    ("torch", "import torch"),
)
ECHO_SERVER = f"""\
import json, pathlib, time
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()

@app.main()
def main(grid, context):
    while not (nodes := list(grid.get_node_ids())):
        time.sleep(0.25)
    took = []
    for echo in range({ECHOES}):
        began = time.monotonic()
        content = RecordDict({{"echo": ConfigRecord({{"echo": echo}})}})
        letters = list(grid.push_messages([Message(content, nodes[0], "train")]))
        while not list(grid.pull_messages(letters)):
            time.sleep(0.25)
        took.append(time.monotonic() - began)
    place = pathlib.Path(context.run_config["folder"])
    place.with_suffix(".new").write_text(json.dumps(took))
    place.with_suffix(".new").rename(place)
"""
ECHO_CLIENT = """\
from flwr.app import Message
from flwr.clientapp import ClientApp

app = ClientApp()

@app.train()
def train(message, context):
    return Message(message.content, reply_to=message)
"""


def imports() -> None:
    """Seconds of processor to import each, in a process that has the ones before."""
    code = "import time, json; times = []\n" + "".join(
        f"began = time.process_time()\n{what}\ntimes.append(time.process_time() - began)\n"
        for _, what in STAGES
    )
    env = os.environ | OFFLINE
    found = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", code + "print(json.dumps(times))"],
                env=env,
                capture_output=True,
                check=True,
            ).stdout
        )
        for _ in range(REPEATS)
    ]
    for (name, _), times in zip(STAGES, zip(*found, strict=True), strict=True):
        print(f"{name:36} {min(times):5.2f} s of processor")


def processor_s(pid: int) -> float:
    """Of a process and all below it that live."""
    used = 0
    for each in (pid, *children(pid)):
        try:
            fields = Path(f"/proc/{each}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            used += int(fields[11]) + int(fields[12])
        except OSError:
            continue
    return used / TICK


def memory_mb(pid: int) -> float:
    pages = 0
    for each in (pid, *children(pid)):
        try:
            pages += int(Path(f"/proc/{each}/statm").read_text(encoding="utf-8").split()[1])
        except OSError:
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def idle() -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        del stage.env["FLWR_SUPEREXEC_TASK_POLL_INTERVAL"]  # as Flower comes
        try:
            stage.superlink()
            stage.supernode(0)
            stage.wait_for_log("superlink", "Activated node_id")
            time.sleep(15)  # its start is over
            link, node = stage.processes["superlink"].pid, stage.processes["node-0"].pid
            before = processor_s(link), processor_s(node)
            time.sleep(IDLE_S)
            spent = processor_s(link) - before[0], processor_s(node) - before[1]
            print(
                f"idle SuperLink with one node         {1000 * spent[0] / IDLE_S:5.1f} ms of processor a second"
            )
            print(
                f"idle SuperNode                       {1000 * spent[1] / IDLE_S:5.1f} ms of processor a second"
            )
            print(f"idle SuperNode with its executor     {memory_mb(node):5.0f} MB")
        finally:
            stage.close()


def latency() -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        try:
            stage.lighten()
            text = (stage.app / "run.toml").read_text(encoding="utf-8")
            one = re.sub(r"(clients|wait_for) = 4", r"\1 = 1", text)
            (stage.app / "run.toml").write_text(one, encoding="utf-8")
            stage.superlink()
            stage.supernode(0)
            began = time.monotonic()
            stage.begin("ours", "fedavg(client_lr=0.1, clients_per_round=1)", ROUNDS)
            place = stage.finished("ours")
            steps = [
                step["virtual_seconds"] for step in json.loads((place / "run.json").read_bytes())["history"]
            ]
            print(
                f"fedpace, with training               {(steps[-1] - steps[0]) / (ROUNDS - 1):5.1f} s per message"
            )
            print(f"fedpace, from flwr run to the end    {time.monotonic() - began:5.1f} s")
            (stage.app / "server_app.py").write_text(ECHO_SERVER, encoding="utf-8")
            (stage.app / "client_app.py").write_text(ECHO_CLIENT, encoding="utf-8")
            done = stage.folder / "done"
            config = f'folder="{done}"'
            stage.flwr("run", str(stage.app), "stage", "--run-config", config)
            wait_until(done.exists, "the last echo")
            took = json.loads(done.read_bytes())[1:]
            print(f"Flower's own echo                    {sum(took) / len(took):5.1f} s per message")
        finally:
            stage.close()


if __name__ == "__main__":
    for name in sys.argv[1:] or ("imports", "idle", "latency"):
        {"imports": imports, "idle": idle, "latency": latency}[name]()
