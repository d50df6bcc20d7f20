"""The options of an experiment, shared by `run`, `compare`, `sweep` and `bench`: task, clients, length, engine."""

from __future__ import annotations

import argparse
import inspect
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fedpace.cli import privacy
from fedpace.cli.parser import count, processes, repeats, seed
from fedpace.cli.settings import build, distribute, setting
from fedpace.errors import unknown

if TYPE_CHECKING:
    from fedpace.algorithm import Algorithm
    from fedpace.compute.protocol import Task


def add_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("experiment")
    what.add_argument("--task", default="digits", metavar="NAME", help="data set (default: %(default)s)")
    what.add_argument(
        "--clients", type=count, default=100, metavar="N", help="number of clients (default: %(default)s)"
    )
    what.add_argument(
        "--partition", metavar="RULE", help="how samples are split over clients (default: the task's own)"
    )
    what.add_argument("--model", metavar="NAME", help="network (default: the task's own)")
    what.add_argument(
        "--population", metavar="P", help="devices: a preset, a distribution or a file; see `fedpace list`"
    )
    what.add_argument(
        "--rounds", type=count, default=50, metavar="N", help="server steps (default: %(default)s)"
    )
    add_settings(what)
    privacy.add_option(what)
    how = parser.add_argument_group("execution")
    how.add_argument(
        "--compute", default="auto", metavar="ENGINE", help="engine for local training (default: %(default)s)"
    )
    how.add_argument(
        "--workers",
        type=processes,
        default=cores(),
        metavar="N",
        help="worker processes, where local training is long enough (default: %(default)s)",
    )
    how.add_argument("--device", metavar="D", help="auto, cpu, cuda, cuda:1 or mps (default: cpu)")
    how.add_argument(
        "--precision", metavar="P", help="of a training step: float32, bf16 or fp16 (default: float32)"
    )
    how.add_argument(
        "--evaluate-every",
        default="1",
        metavar="N",
        help="server steps (10), virtual seconds (30s) or traffic (5MB) between evaluations (default: %(default)s)",
    )


def add_algorithm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("algorithm", metavar="ALGORITHM", help="a name from `fedpace list`")


def add_seeds(group: argparse._ArgumentGroup | argparse.ArgumentParser, per: str) -> None:
    text = f"seeds per {per}, starting at --seed (default: %(default)s)"
    group.add_argument("--seeds", type=repeats, default=1, metavar="K", help=text)


def add_settings(group: argparse._ArgumentGroup) -> None:
    """--seed and --set."""
    group.add_argument("--seed", type=seed, default=0, metavar="N", help="random seed (default: %(default)s)")
    group.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the algorithm (repeatable); see `fedpace list ALGORITHM`",
    )


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def algorithm_functions() -> dict[str, Callable[..., Algorithm]]:
    """Every named algorithm."""
    from fedpace import algorithms

    return {name: getattr(algorithms, name) for name in algorithms.__all__}


def make_algorithms(names: Sequence[str], args: argparse.Namespace) -> dict[str, Algorithm]:
    """The algorithms of these names with what `--set` says; schedules learn how long the run is."""
    known, chosen = algorithm_functions(), settings(names, args)
    made = {name: build(known[name], chosen[name], **_offered(known[name], args)) for name in names}
    for algorithm in made.values():
        algorithm.pace.init(args.clients)  # refuses sizes that do not fit before anything is run
    dp = getattr(args, "dp", None)
    return {name: privacy.made_private(each, dp, args.clients, args.rounds) for name, each in made.items()}


def _offered(function: Callable[..., Algorithm], args: argparse.Namespace) -> dict[str, Any]:
    """What a run knows that an algorithm may want: how long it is, and sizes no larger than the number of clients."""
    parameters = inspect.signature(function).parameters
    sizes = {name: parameters[name].default for name in ("buffer", "concurrency") if name in parameters}
    fitting = {name: min(size, args.clients) for name, size in sizes.items() if isinstance(size, int)}
    return {"rounds": args.rounds, **fitting}


def settings(names: Sequence[str], args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What `--set` says to each of these algorithms."""
    known = algorithm_functions()
    for name in names:
        if name not in known:
            raise unknown("algorithm", name, known)
    return distribute(args.set, {name: known[name] for name in names})


def load_task(args: argparse.Namespace, seed: int) -> Task:
    """The data, split as `seed` says."""
    from fedpace import tasks

    where = (args.device or "cpu", args.precision or "float32")
    return tasks.load(args.task, args.clients, args.partition, args.model, seed, *where)


def execution(args: argparse.Namespace) -> dict[str, Any]:
    """The options that `simulate` takes as they are."""
    names = ("rounds", "workers", "compute", "evaluate_every")
    return {name: getattr(args, name) for name in names}
