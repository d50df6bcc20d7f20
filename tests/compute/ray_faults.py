"""Runs over Ray that lose actors, a node or their own process; each prints what it found as JSON into a file.

    python ray_faults.py actors ANSWER            an actor is killed at every second step
    python ray_faults.py node ANSWER              nodes are killed, and one joins
    python ray_faults.py driver ANSWER            kill -9 of the program, in a cluster that stays; then it resumes
    python ray_faults.py alone ANSWER             the same for a program that started Ray by itself

Started by test_ray_faults.py, in namespaces of their own: `killed_actor` looks at all processes.
"""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ray.cluster_utils import Cluster

import fedpace
from fedpace import algorithms
from fedpace.random import stream
from fedpace.record import Checkpoints
from fedpace.sim import Observer, Population

LOOPBACK = "127.0.0.1"
CLIENTS, SIZE, STEPS = (
    8,
    40_000,
    12,
)  # a model of 320 kB: results lie in the object store of the node that made them
ALGORITHMS = {
    "fedbuff": lambda: algorithms.fedbuff(steps=3, buffer=3, concurrency=6),
    "scaffold": lambda: algorithms.scaffold(steps=3, clients_per_round=4),
}


def simulate(name: str, compute: str, after: Callable[[int], None], folder: Path | None = None) -> bytes:
    """All that must not differ by a bit; `after` is called with the number of every server step."""

    class Told(Observer):
        def recorded(self, record: Any, x: Any) -> None:
            after(record.version)

    rng = stream(5, "data")
    task = fedpace.tasks.quadratics(rng.normal(size=(CLIENTS, SIZE)), initial=1.0)
    run = fedpace.simulate(
        ALGORITHMS[name](),
        task,
        Population(solve_s=tuple(rng.uniform(0.5, 3.0, CLIENTS).tolist()), noise_s=0.2),
        rounds=STEPS,
        seed=3,
        workers=2,
        compute=compute,
        observers=[Told()],
        checkpoint=None if folder is None else Checkpoints(folder, every=1),
    )
    return run.to_json().encode() + repr(run.timeline()).encode() + np.ascontiguousarray(run.model).tobytes()


def nothing(step: int) -> None:
    """Happens after a step of a run that is left in peace."""


def killed_actor(dice: random.Random) -> int:
    """SIGKILL one of the actors; how many were killed (none, if all are starting again)."""
    names = {int(path.parent.name): path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")}
    actors = sorted(number for number, name in names.items() if name.startswith(b"ray::SolverActor"))
    if actors:
        os.kill(dice.choice(actors), signal.SIGKILL)
    return min(len(actors), 1)


def actors() -> dict[str, Any]:
    same, kills, dice = {}, 0, random.Random(1)

    def after(step: int) -> None:
        nonlocal kills
        kills += killed_actor(dice) if step % 2 else 0

    for name in ALGORITHMS:
        same[name] = simulate(name, "ray", after) == simulate(name, "inline", nothing)
    return {"same": same, "kills": kills}


def cluster() -> Cluster:
    """A head without a core for actors, and two nodes with one each."""
    made = Cluster(
        True, head_node_args={"num_cpus": 0, "node_ip_address": LOOPBACK, "include_dashboard": False}
    )
    joined(made), joined(made)
    os.environ["RAY_ADDRESS"] = made.address
    return made


def joined(nodes: Cluster) -> Any:
    return nodes.add_node(num_cpus=1, node_ip_address=LOOPBACK)


def node() -> dict[str, Any]:
    """The first run goes on with one node of two; the second begins so, gets another, and loses the one it had."""
    nodes = cluster()
    first, second = nodes.worker_nodes
    events = [{3: lambda: lost(nodes, first)}, {3: lambda: joined(nodes), 6: lambda: lost(nodes, second)}]
    same = {}
    for name, event in zip(ALGORITHMS, events, strict=True):
        after = functools.partial(at, event)
        same[name] = simulate(name, "ray", after) == simulate(name, "inline", nothing)
    return {"same": same, "nodes": len(nodes.worker_nodes)}


def at(event: dict[int, Callable[[], Any]], step: int) -> None:
    event.get(step, int)()


def lost(nodes: Cluster, which: Any) -> None:
    nodes.remove_node(which, allow_graceful=False)


def victim(name: str, dies_after: int, folder: Path) -> bytes:
    """A program that dies after a step; 0: it does not, and returns its result."""

    def after(step: int) -> None:
        if step == dies_after:
            os.kill(os.getpid(), signal.SIGKILL)

    return simulate(name, "ray", after, folder)


def killed_twice_and_resumed(scratch: Path) -> dict[str, Any]:
    same, kills = {}, 0
    for name in ALGORITHMS:
        folder, result = scratch / name, scratch / f"{name}.result"
        for dies_after in (4, 9, 0):
            command = [sys.executable, __file__, "victim", str(result), name, str(dies_after), str(folder)]
            kills += subprocess.run(command).returncode == -signal.SIGKILL
        same[name] = result.read_bytes() == simulate(name, "inline", nothing)
    return {"same": same, "kills": kills}


def main(what: str, answer: Path, *words: str) -> None:
    if what == "victim":
        name, dies_after, folder = words
        answer.write_bytes(victim(name, int(dies_after), Path(folder)))
        return
    if what == "driver":
        cluster()
    found = {"actors": actors, "node": node}.get(what, lambda: killed_twice_and_resumed(answer.parent))()
    answer.write_text(json.dumps(found))
    os._exit(0)  # Ray ends with 1 if it has lost a node; what is left of it ends with the namespace


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
