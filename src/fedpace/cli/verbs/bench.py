"""fedpace bench [WHAT ...]"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fedpace.cli import show
from fedpace.cli.experiment import add_options, load_task, make_algorithms
from fedpace.cli.parser import count, repeats
from fedpace.errors import ConfigError, unknown

if TYPE_CHECKING:
    from fedpace.bench.comparison import Failure, Measurement

Rows = list[dict[str, Any]]
WORK = {  # workloads by what is typed
    "W1": ("W1",),
    "W2": ("W2",),
    "W3": ("W3",),
    "async": ("W4", "W4d"),
    "W5": ("W5",),
    "W6": ("W6",),
    "W7": ("W7",),
    "W7r": ("W7r",),
}
WHAT = (*WORK, "server", "codecs", "robust", "scale", "memory", "device", "startup", "tune")
USUAL = ("W1", "W2", "W3", "async", "startup")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", nargs="*", metavar="WHAT", help=f"{', '.join(WHAT)} (default: {' '.join(USUAL)})"
    )
    parser.add_argument(
        "--repeats", type=repeats, default=5, metavar="N", help="repetitions (default: %(default)s)"
    )
    parser.add_argument("--json", metavar="FILE", help="also write all numbers")
    parser.add_argument("--peers", action="store_true", help="also run other frameworks, where installed")
    parser.add_argument(
        "--algorithm", default="fedavg", metavar="NAME", help="for tune (default: %(default)s)"
    )
    parser.add_argument(
        "--parameters",
        type=count,
        metavar="N",
        help="for memory (default: 100 million) and robust (10 million)",
    )
    parser.add_argument(
        "--updates", type=count, default=100, metavar="N", help="for robust (default: %(default)s)"
    )
    add_options(parser)
    parser.set_defaults(rounds=5)


def command(args: argparse.Namespace) -> int:
    """Benchmark fedpace against plain torch loops on this machine.

    W1, W2, W3, async   local training: fedpace and a plain torch loop in alternation; ratios are to the loop
                        in two processes
    W5, W6, W7, W7r     the same for user-defined modules: tanh MLP, transformer, ResNet, ResNet-18 (ten minutes)
    server, codecs      a server step of 100 million parameters against streaming the same bytes; codecs
                        against one copy
    robust              the robust rules on 100 updates of 10 million parameters (--updates, --parameters), against
                        numpy's median and mean, and their peak memory
    scale               one million clients, one thousand of them per round
    memory              peak memory of two rounds, in model sizes (--parameters)
    device              seconds per round of every workload on the CPU and on --device
    startup             --help, and the first round of a small run
    tune                time the engines on your experiment (--task, --model, --set, ...) and pin the fastest for
                        `auto`

    --peers runs other frameworks on the same workloads: those with a virtual environment in the folder
    FEDPACE_PEERS (docs/compute.md explains how to install each).
    """
    chosen = args.what or USUAL
    for name in chosen:
        if name not in WHAT:
            raise unknown("WHAT", name, WHAT)
    measured = {name: _measured(name, args) for name in chosen}
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(measured, file, indent=1)
    return 0


def _measured(name: str, args: argparse.Namespace) -> Rows:
    if name in WORK:
        return _training(args, *WORK[name])
    measure: Callable[[argparse.Namespace], Rows] = globals()[f"_{name}"]
    return measure(args)


def _training(args: argparse.Namespace, *names: str) -> Rows:
    from fedpace.bench import comparison, peers
    from fedpace.bench.contender import WHO
    from fedpace.bench.workloads import WORKLOADS

    if not hasattr(os, "fork"):
        raise ConfigError("local training must be measured where processes can fork, as the torch loops do")
    rows: Rows = []
    for name in names:
        workload = WORKLOADS[name]
        commands: dict[str, list[str]] = {who: comparison.command(workload, who) for who in WHO}
        if args.peers:
            commands |= peers.commands(workload)
        results = comparison.measure(workload, commands, args.repeats)
        _show(f"{name}: {workload.title}", results, workload.target)
        rows += [result.plain() for result in results]
    return rows


def _show(title: str, results: Iterable[Measurement | Failure], target: float | None) -> None:
    rows = [_row(result) for result in results]
    header = (title, "s per round", "of bare 2", "peak MB")
    goal = "no target" if target is None else f"target for fedpace: {target} of bare 2"
    show.table(header, rows, "trrr", caption=goal)


def _row(result: Measurement | Failure) -> tuple[str, str, str, str]:
    from fedpace.bench.comparison import Failure

    if isinstance(result, Failure):
        return f"{result.who} {result.reason}", "failed", "", ""
    return result.who, f"{result.seconds:.4f}", f"{result.ratio:.3f}", f"{result.peak_bytes / 1e6:.0f}"


def _memory(args: argparse.Namespace) -> Rows:
    from fedpace.bench import memory

    parameters = args.parameters or memory.PARAMETERS
    results = memory.measure(parameters)
    rows = [
        (r.algorithm, f"{r.peak_bytes / 1e9:.2f}", f"{r.model_sizes:.1f}", str(r.target)) for r in results
    ]
    show.table((f"{parameters:,} parameters", "GB", "model sizes", "target"), rows, "lrrr")
    return [asdict(result) for result in results]


def _device(args: argparse.Namespace) -> Rows:
    from fedpace.bench import devices

    results = devices.measure(args.device or "auto", args.precision or "float32", args.repeats)
    rows = [(r.workload, r.device, r.engine, f"{r.seconds:.4f}", f"{r.ratio:.2f}") for r in results]
    show.table(("workload", "device", "engine", "s per round", "of the CPU"), rows, "lllrr")
    return [asdict(result) for result in results]


def _server(args: argparse.Namespace) -> Rows:
    from fedpace.bench import server

    results = list(server.measure(repeats=args.repeats))
    rows = [(r.rule, f"{r.seconds:.3f}", f"{r.streaming:.3f}", f"{r.ratio:.2f}") for r in results]
    show.table(("100 million parameters, 10 updates", "s", "streaming s", "ratio"), rows, "lrrr")
    return [asdict(result) for result in results]


def _codecs(args: argparse.Namespace) -> Rows:
    from fedpace.bench import codecs

    results = codecs.measure(repeats=args.repeats)
    rows = [(r.codec, f"{r.encode:.2f}", f"{r.decode:.2f}", f"{r.share:.4f}") for r in results]
    show.table(("10 million values, in copies", "encode", "decode", "bytes of dense"), rows, "lrrr")
    return [asdict(result) for result in results]


def _robust(args: argparse.Namespace) -> Rows:
    from fedpace.bench import robust

    parameters = args.parameters or robust.SIZE
    results = list(robust.measure(parameters, args.updates, args.repeats))
    rows = [
        (r.rule, f"{r.seconds:.2f}", f"{r.of_median:.2f}", f"{r.of_mean:.1f}", f"{r.memory:.2f}")
        for r in results
    ]
    title = f"{args.updates} updates of {parameters:,} parameters"
    header = (title, "s", "of numpy's median", "of its mean", "memory")
    show.table(header, rows, "lrrrr", caption=f"memory: peak in the updates' bytes; target: {robust.MOST}")
    return [asdict(result) for result in results]


def _scale(args: argparse.Namespace) -> Rows:
    command = [sys.executable, "-m", "fedpace.bench.scale"]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, Any] = json.loads(said)
    row = (
        f"{result['clients']:,}",
        f"{result['per_round']:,}",
        f"{result['seconds']:.3f}",
        f"{result['peak_bytes'] / 1e6:.0f}",
    )
    show.table(("clients", "per round", "s per round", "peak MB"), [row], "rrrr")
    return [result]


def _startup(args: argparse.Namespace) -> Rows:
    from fedpace.bench import startup

    seconds = startup.measure(args.repeats)
    show.table(("command", "s"), [(name, f"{value:.2f}") for name, value in seconds.items()], "lr")
    return [{"command": name, "seconds": value} for name, value in seconds.items()]


def _tune(args: argparse.Namespace) -> Rows:
    from fedpace.bench import tuning
    from fedpace.compute import pins

    algorithm = make_algorithms([args.algorithm], args)[args.algorithm]
    task = load_task(args, args.seed)
    results = tuning.timed(algorithm, task, args.workers, args.rounds, args.repeats)
    rows = [(result.pin.engine, str(result.pin.workers), f"{result.seconds:.4f}") for result in results]
    where = pins.keep(task, algorithm.local, results[0].pin)
    show.table(("engine", "workers", "s per round"), rows, "lrr", caption=f"the first is pinned in {where}")
    return [asdict(result) for result in results]
