"""fedpace advise"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fedpace.cli.advise.options import SERVER, WORK, Option
from fedpace.cli.advise.problem import PROBLEM
from fedpace.cli.experiment import add_settings
from fedpace.cli.parser import count, number
from fedpace.errors import ConfigError

if TYPE_CHECKING:
    from fedpace.server_opt import Stages
    from fedpace.theory import Setting, Work

LOCAL = {"client_lr": 0.1, "batch_size": 10, "momentum": 0.0, "prox_mu": 0.0}  # defaults


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "algorithm", nargs="?", metavar="ALGORITHM", help="show the papers' limits and bounds for it"
    )
    _add_experiment(parser)
    _add_work(parser)
    server = _group(parser, "server momentum", SERVER)
    coupled = "coupling of the stages (default: nu)"
    server.add_argument("--couple", choices=("nu", "nag", "beta"), help=coupled)
    _add_problem(parser)
    out = parser.add_argument_group("output")
    out.add_argument(
        "--plot",
        metavar="FILE",
        help="with ALGORITHM: run it and draw its gradient norm and the bound; without: draw client weights, intended "
        "and effective (.png, .svg, .pdf)",
    )
    out.add_argument(
        "--picture", metavar="FILE", help=argparse.SUPPRESS
    )  # client weights, with ALGORITHM too


def _add_experiment(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("experiment")
    what.add_argument("--task", metavar="NAME", help="task whose clients and model to use")
    what.add_argument(
        "--clients", type=count, default=100, metavar="N", help="number of clients (default: %(default)s)"
    )
    what.add_argument(
        "--partition", default=None, metavar="RULE", help="how samples are partitioned over clients"
    )
    what.add_argument("--model", metavar="NAME", help="network (default: the task's own)")
    what.add_argument("--population", metavar="P", help="devices, which determine delays; see `fedpace list`")
    what.add_argument(
        "--rounds", type=count, default=100, metavar="T", help="server steps (default: %(default)s)"
    )
    add_settings(what)


def _add_work(parser: argparse.ArgumentParser) -> None:
    work = _group(parser, "local work", WORK)
    work.add_argument("--nesterov", action="store_true", help="use Nesterov's momentum in local steps")
    work.add_argument("--weighting", choices=("samples", "uniform"), help="client weights (default: samples)")


def _add_problem(parser: argparse.ArgumentParser) -> None:
    constants = ((name, number, metavar, meaning) for name, metavar, meaning in PROBLEM)
    problem = _group(parser, "problem, for limits and bounds (default: 1 each)", constants)
    problem.add_argument(
        "--size", type=count, metavar="D", help="parameters of the model (default: the task's, or 10,000)"
    )
    problem.add_argument(
        "--estimate", action="store_true", help="measure these and the codecs' errors on the task"
    )


def _group(parser: argparse.ArgumentParser, title: str, options: Iterable[Option]) -> argparse._ArgumentGroup:
    group = parser.add_argument_group(title)
    for name, read, metavar, text in options:
        group.add_argument(f"--{name}", type=read, metavar=metavar, help=text)
    return group


def command(args: argparse.Namespace) -> int:
    """Compute learning-rate limits, bounds, delays and recommended rates before a run.

    With ALGORITHM: the papers' limits and bounds for it, with delays from the devices and constants that are given,
    assumed or measured on a task. Without: the objective inconsistency of plain averaging under unequal local work,
    and stage tables. Every number is labelled exact, a sufficient condition, an upper bound, an order of magnitude,
    mean stability (exact for the mean model of a quadratic), measured, assumed or recommended. No run is refused
    because of them.

      fedpace advise ca2fl --task digits --population half-normal:5 --set buffer=10 --estimate
      fedpace advise defedavg_niid --clients 100 --set draws=10 --set steps=50 --population defedavg
      fedpace advise multistage_fedgm --task digits --rounds 200 --estimate --plot bound.png
      fedpace advise --steps 2,5,9 --samples 500,300,200
      fedpace advise --task digits --clients 100 --partition dirichlet:0.5 --epochs 1..6 --momentum 0.9
      fedpace advise --server-lr 2,1,0.5 --beta 0.9 --nu 0.9 --rounds 1000 --steps 5,5,5,5
    """
    from fedpace.cli.advise import named
    from fedpace.disk.files import require_writable

    for option in ("picture", "plot"):
        if getattr(args, option) is not None:
            require_writable(getattr(args, option), f"--{option}")
    if args.algorithm is not None:
        for name in ("delay", "nesterov"):
            if getattr(args, name) not in (None, False):
                raise ConfigError(
                    f"--{name} must come without an algorithm, whose own rules decide it; got both"
                )
        return named.command(args)
    only_named = [name for name in ("estimate", "population", "set", "model") if getattr(args, name)]
    if only_named:
        raise ConfigError(
            f"--{only_named[0]} must come with an algorithm, as in `fedpace advise fedgm`; got none"
        )
    return _planned(args)


def _planned(args: argparse.Namespace) -> int:
    """Unequal work and stage tables, from numbers alone."""
    from fedpace.cli import show
    from fedpace.cli.advise import tables

    work, picture_file = planned_work(args), args.picture or args.plot
    if work is None and picture_file is not None:
        raise ConfigError("--plot must come with ALGORITHM, --steps or --epochs; got none of them")
    if work is None and args.server_lr is None:
        raise ConfigError("ALGORITHM or one of --steps, --epochs and --server-lr must be given; got none")
    problem = _setting(args, work)
    stages = None if args.server_lr is None else _stages(args)
    if work is not None:
        tables.work(work, problem, local(args, "client_lr"), args.rounds, picture_file)
    if stages is not None:
        steps = () if work is None else work.k.ravel().tolist()
        tables.server(stages, problem, local(args, "client_lr"), args.delay, steps)
    if work is not None:
        from fedpace.theory import advice

        show.console().print(advice(work) or "plain averaging is (almost) consistent here: fedavg suffices")
    return 0


def local(args: argparse.Namespace, name: str) -> float:
    """A parameter of local training, or its default."""
    given = getattr(args, name)
    return float(LOCAL[name] if given is None else given)


def planned_work(args: argparse.Namespace) -> Work | None:
    """The clients' weights and local work, or None if no work is given."""
    from fedpace.local import SGD
    from fedpace.theory import Work

    sizes = samples(args)
    shares = sizes if (args.weighting or "samples") == "samples" else None
    rate = local(args, "client_lr")
    rule = {
        "momentum": local(args, "momentum"),
        "nesterov": args.nesterov,
        "prox_mu": local(args, "prox_mu"),
    }
    if args.steps is not None:
        return Work.of(SGD(rate, steps=args.steps, **rule), args.steps, shares)
    if args.epochs is None:
        return None
    if sizes is None:
        raise ConfigError("--epochs must come with --samples or --task; got neither")
    solver = SGD(rate, epochs=args.epochs, batch_size=int(local(args, "batch_size")), **rule)
    low, high = args.epochs
    plans = [[passes * solver.batches(size) for size in sizes] for passes in range(low, high + 1)]
    return Work.drawn(solver, plans, shares)


def samples(args: argparse.Namespace) -> Sequence[float] | None:
    """n_i of every client: of a task, as given, or None."""
    if args.task is None:
        given: Sequence[float] | None = args.samples
        return given
    from fedpace import tasks

    task = tasks.load(args.task, clients=args.clients, partition=args.partition or "iid", seed=args.seed)
    return [task.samples(client) for client in range(task.clients)]


def _setting(args: argparse.Namespace, work: Work | None) -> Setting:
    from fedpace.theory import Setting

    problem: dict[str, Any] = {
        name: 1.0 if getattr(args, name) is None else getattr(args, name) for name, *_ in PROBLEM
    }
    return Setting(
        clients=args.clients if work is None else work.clients,
        steps=1.0 if work is None else work.max_steps,
        per_round=args.clients_per_round,
        **problem,
    )


def _stages(args: argparse.Namespace) -> Stages:
    import warnings

    from fedpace.theory import ScheduleWarning, multistage

    couple = args.couple or "nu"
    nu = 0.9 if args.nu is None and couple != "nag" else args.nu
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScheduleWarning)  # shown under the table instead
        return multistage(args.server_lr, args.rounds, 0.9 if args.beta is None else args.beta, nu, couple)
