"""The options of an experiment, shared by `run`, `compare`, `sweep` and `bench`: task, clients, length, engine."""

from __future__ import annotations

import argparse
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedpace.cli import privacy
from fedpace.cli.parser import DefaultCount, count, processes, repeats, seed, share
from fedpace.cli.settable import settable
from fedpace.cli.settings import build, distribute, setting
from fedpace.errors import require, unknown
from fedpace.plug_ins import PLACE, function_at

if TYPE_CHECKING:
    from fedpace.algorithm import Algorithm
    from fedpace.compute.protocol import Task
    from fedpace.record import Run


OUTSIDE = ("folder:", "leaf:")


def add_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("experiment")
    what.add_argument(
        "--task", default="digits", metavar="NAME", help="data set, or module:function (default: %(default)s)"
    )
    what.add_argument(
        "--clients",
        type=count,
        default=DefaultCount(100),
        metavar="N",
        help="number of clients (default: %(default)s, or the number given by the data)",
    )
    what.add_argument(
        "--partition",
        metavar="RULE",
        help="how samples are partitioned over clients (default: the task's own)",
    )
    what.add_argument("--model", metavar="NAME", help="network (default: the task's own)")
    what.add_argument(
        "--client-test",
        type=share,
        metavar="SHARE",
        help="fraction of every client's samples held out as its own test set, e.g. 0.2",
    )
    what.add_argument(
        "--label-smoothing", type=share, metavar="S", help="label smoothing of the training loss, e.g. 0.1"
    )
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
        help="worker processes; used if local training is long enough to gain from them (default: %(default)s)",
    )
    how.add_argument(
        "--device",
        metavar="D",
        help="device for training and evaluation: auto, cpu, cuda, cuda:1 or mps (default: cpu)",
    )
    how.add_argument(
        "--precision",
        metavar="P",
        help="floating-point type of local training steps: float32, bf16 or fp16 (default: float32)",
    )
    how.add_argument(
        "--evaluate-every",
        default="1",
        metavar="N",
        help="server steps (10), virtual seconds (30s) or traffic (5MB) between evaluations (default: %(default)s)",
    )


def add_algorithm(parser: argparse.ArgumentParser, text: str = "a name from `fedpace list`") -> None:
    parser.add_argument("algorithm", metavar="ALGORITHM", help=text)


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
        help="set a parameter or a rule of the algorithm (repeatable); see `fedpace list ALGORITHM`",
    )
    add_modules(group)


def add_modules(group: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    group.add_argument(
        "--modules", metavar="FOLDER", help="folder to search for module:name, before installed packages"
    )


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def algorithm_functions() -> dict[str, Callable[..., Algorithm]]:
    """Every named algorithm."""
    from fedpace import algorithms

    return {name: getattr(algorithms, name) for name in algorithms.__all__}


def make_algorithms(
    rows: Iterable[str] | Mapping[str, str], args: argparse.Namespace
) -> dict[str, Algorithm]:
    """The algorithms of these rows with what `--set` says; schedules learn how long the run is."""
    functions, chosen = _functions(rows, args), settings(rows, args)
    made = {
        row: build(function, chosen[row], **_offered(function, args)) for row, function in functions.items()
    }
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


def settings(rows: Iterable[str] | Mapping[str, str], args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What `--set` says to each of these rows."""
    return distribute(args.set, _functions(rows, args))


def algorithm_function(name: str, args: argparse.Namespace) -> Callable[..., Algorithm]:
    """The function of this name, or `module:function`; or one that makes the algorithm which is written out."""
    folder = modules(args)
    if name.startswith("Algorithm("):
        from fedpace.study.rebuild import algorithm_from

        return settable(lambda: algorithm_from(name), folder)
    if PLACE.fullmatch(name):
        return settable(function_at(name, folder), folder)
    known = algorithm_functions()
    if name not in known:
        raise unknown("algorithm", name, known)
    return settable(known[name], folder)


def _functions(
    rows: Iterable[str] | Mapping[str, str], args: argparse.Namespace
) -> dict[str, Callable[..., Algorithm]]:
    """By row; rows without names of their own are called after their algorithms."""
    named = rows if isinstance(rows, Mapping) else {name: name for name in rows}
    return {row: algorithm_function(name, args) for row, name in named.items()}


# ------------------------------------------------------------ tasks


def load_task(args: argparse.Namespace, seed: int) -> Task:
    """The data, split as `seed` says; or what a function of one's own makes of the seed."""
    from fedpace import tasks

    if PLACE.fullmatch(args.task):
        return _own_task(args, seed)
    if "(" in args.task:
        from fedpace.study.rebuild import task_from

        return task_from(args.task)  # type: ignore[no-any-return]
    where = (getattr(args, "device", None) or "cpu", getattr(args, "precision", None) or "float32")
    model = args.model
    if model is not None and PLACE.fullmatch(model):
        from fedpace.tasks.own_network import OwnNetwork

        model = OwnNetwork(function_at(model, modules(args)), model)
    held, smoothing = (getattr(args, name, None) or 0.0 for name in ("client_test", "label_smoothing"))
    clients = None if counts_itself(args) else args.clients
    return tasks.load(args.task, clients, args.partition, model, seed, *where, held, smoothing)


def _own_task(args: argparse.Namespace, seed: int) -> Task:
    from fedpace.study.trial import TaskOfSeed

    for option in ("partition", "model", "device", "precision", "client_test", "label_smoothing"):
        given = getattr(args, option, None)
        require(
            given is None,
            f"--{option.replace('_', '-')}",
            given,
            f"decided by {args.task}, which makes the task",
        )
    return TaskOfSeed(function_at(args.task, modules(args)))(seed)


def sized(args: argparse.Namespace) -> argparse.Namespace:
    """The arguments with the number of clients that an own task has."""
    if not own_task(args):
        return args
    return argparse.Namespace(**{**vars(args), "clients": load_task(args, args.seed).clients})


def own_task(args: argparse.Namespace) -> bool:
    """Whether the task says itself how many clients it has."""
    return bool(PLACE.fullmatch(args.task)) or "(" in args.task or counts_itself(args)


def counts_itself(args: argparse.Namespace) -> bool:
    """Whether files or lists of samples say how many clients there are, and nobody else does."""
    known = args.task.startswith(OUTSIDE) or str(args.partition).endswith(".json")
    return known and isinstance(args.clients, DefaultCount)


def places(args: argparse.Namespace) -> dict[str, str]:
    """Task and partition with the whole paths of their files."""
    kind, _, path = args.task.partition(":")
    found = {"task": f"{kind}:{Path(path).resolve()}"} if args.task.startswith(OUTSIDE) else {}
    if str(args.partition).endswith(".json"):
        found["partition"] = str(Path(args.partition).resolve())
    return found


def modules(args: argparse.Namespace) -> Path | None:
    """The folder where modules of plug-ins are looked for first."""
    folder = getattr(args, "modules", None)
    return None if folder is None else Path(folder)


def initial_model(text: str) -> str:
    """A file by its whole path; the name of a saved run as it is."""
    return str(Path(text).resolve()) if Path(text).exists() else text


def initial(text: str | None) -> Run | str | None:
    """The model to start from, as `simulate` takes it."""
    if text is None or Path(text).exists() or text.endswith(".safetensors"):
        return text
    from fedpace.study.saved import runs

    return runs().open(text).load()


def execution(args: argparse.Namespace) -> dict[str, Any]:
    """The options that `simulate` takes as they are."""
    names = ("rounds", "workers", "compute", "evaluate_every")
    return {
        **{name: getattr(args, name) for name in names},
        "stop": dict(args.stop) or None,
        "initial": initial(args.initial),
        "client_metrics_every": args.client_metrics_every,
        "personalise": args.personalise,
    }
