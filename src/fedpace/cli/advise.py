"""fedpace advise"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fedpace.cli.parser import amount, count, number, seed, share
from fedpace.errors import ConfigError

MOST_STEPS = 1_000_000  # of a session: bounds sum over every one of them
MOST_EPOCHS = 1_000

if TYPE_CHECKING:
    from fedpace.server_opt import Stages
    from fedpace.theory import Figure, Work
    from fedpace.theory.momentum_bounds import Setting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    work = parser.add_argument_group("how much each client does")
    work.add_argument("--steps", type=counts, metavar="K,K,...", help="local steps of every client")
    work.add_argument(
        "--epochs", type=epochs, metavar="E", help="or passes over its data: 2, or 1..6 if drawn"
    )
    work.add_argument("--samples", type=numbers, metavar="N,N,...", help="samples of every client")
    work.add_argument("--task", metavar="NAME", help="or take the samples of a task's clients")
    work.add_argument("--clients", type=count, default=100, metavar="N", help="default: %(default)s")
    work.add_argument("--partition", default="iid", metavar="RULE", help="default: %(default)s")
    work.add_argument("--seed", type=seed, default=0, metavar="N", help="default: %(default)s")
    work.add_argument(
        "--weighting", choices=("samples", "uniform"), default="samples", help="what makes a client's share"
    )
    solver = parser.add_argument_group("local solver")
    solver.add_argument("--client-lr", type=number, default=0.1, metavar="LR", help="default: %(default)s")
    solver.add_argument("--batch-size", type=count, default=10, metavar="B", help="default: %(default)s")
    solver.add_argument("--momentum", type=number, default=0.0, metavar="RHO")
    solver.add_argument("--nesterov", action="store_true")
    solver.add_argument("--prox-mu", type=number, default=0.0, metavar="MU")
    server = parser.add_argument_group("server momentum")
    server.add_argument("--server-lr", type=numbers, metavar="LR,LR,...", help="one per stage, falling")
    server.add_argument("--beta", type=number, default=0.9, metavar="B", help="first stage's (default: 0.9)")
    server.add_argument("--nu", type=share, metavar="NU", help="first stage's (default: 0.9)")
    server.add_argument(
        "--couple", choices=("nu", "nag", "beta"), default="nu", help="what stays the same (default: nu)"
    )
    server.add_argument("--delay", type=amount, metavar="S", help="largest staleness, for autonomous clients")
    problem = parser.add_argument_group("problem, for limits and bounds")
    problem.add_argument("--rounds", type=count, default=100, metavar="T", help="default: %(default)s")
    problem.add_argument("--clients-per-round", type=count, metavar="M", help="default: everybody")
    problem.add_argument("--smoothness", type=number, default=1.0, metavar="L", help="default: %(default)s")
    problem.add_argument("--noise", type=number, default=1.0, metavar="V", help="variance of a gradient")
    problem.add_argument("--spread", type=number, default=1.0, metavar="V", help="of the clients' gradients")
    problem.add_argument(
        "--gap", type=number, default=1.0, metavar="F", help="loss at the start above the best"
    )
    parser.add_argument(
        "--picture", metavar="FILE", help="draw shares against plain weights (.png, .svg, .pdf)"
    )


def command(args: argparse.Namespace) -> int:
    """Compute learning-rate limits, stage tables and the bias of plain averaging.

    Clients that do different amounts of work pull plain averaging towards themselves: tell what each one
    does and see how far. Limits are sufficient conditions and usually strict; they advise, they refuse nothing.

      fedpace advise --steps 2,5,9 --samples 500,300,200
      fedpace advise --task digits --clients 100 --partition dirichlet:0.5 --epochs 1..6 --momentum 0.9
      fedpace advise --server-lr 2,1,0.5 --beta 0.9 --nu 0.9 --rounds 1000 --steps 5,5,5,5
    """
    from fedpace.cli import show
    from fedpace.record.files import require_writable

    if args.picture is not None:
        require_writable(args.picture, "--picture")
    work = planned_work(args)
    if work is None and args.server_lr is None:
        raise ConfigError("one of --steps, --epochs and --server-lr must be given; got none")
    setting = _setting(args, work)
    stages = None if args.server_lr is None else _stages(args)
    if work is not None:
        _show_work(work, setting, args)
    if stages is not None:
        _show_server(stages, setting, args, work)
    if work is not None:
        from fedpace.theory import advice

        show.console().print(advice(work) or "plain averaging is (almost) unbiased here: fedavg will do")
    return 0


def planned_work(args: argparse.Namespace) -> Work | None:
    """The clients' shares and solvers, or None if nothing is said about their work."""
    from fedpace.local import SGD
    from fedpace.theory import Work

    sizes = _samples(args)
    shares = sizes if args.weighting == "samples" else None
    rule = {"momentum": args.momentum, "nesterov": args.nesterov, "prox_mu": args.prox_mu}
    if args.steps is not None:
        return Work.of(SGD(args.client_lr, steps=args.steps, **rule), args.steps, shares)
    if args.epochs is None:
        return None
    if sizes is None:
        raise ConfigError("--epochs must come with --samples or --task; got neither")
    local = SGD(args.client_lr, epochs=args.epochs, batch_size=args.batch_size, **rule)
    low, high = args.epochs
    plans = [[passes * local.batches(size) for size in sizes] for passes in range(low, high + 1)]
    return Work.mean([Work.of(local, plan, shares) for plan in plans])


def _samples(args: argparse.Namespace) -> Sequence[float] | None:
    if args.task is None:
        given: Sequence[float] | None = args.samples
        return given
    from fedpace import tasks

    task = tasks.load(args.task, clients=args.clients, partition=args.partition, seed=args.seed)
    return [task.samples(client) for client in range(task.clients)]


def _setting(args: argparse.Namespace, work: Work | None) -> Setting:
    from fedpace.theory.momentum_bounds import Setting

    return Setting(
        smoothness=args.smoothness,
        clients=args.clients if work is None else work.clients,
        steps=1.0 if work is None else float(work.steps.max()),
        per_round=args.clients_per_round,
        noise=args.noise,
        spread=args.spread,
        gap=args.gap,
    )


def _show_work(work: Work, setting: Setting, args: argparse.Namespace) -> None:
    from fedpace.cli import show
    from fedpace.theory import advisor, picture

    show.console().print(picture.bars(work), end="\n\n")
    _show_figures("plain averaging", advisor.bias(work, setting))
    _show_figures("fednova", advisor.normalised(work, setting, args.client_lr, args.rounds))
    if args.picture is not None:
        from fedpace.record import plot

        plot.save(picture.picture(work), args.picture)


def _show_server(stages: Stages, setting: Setting, args: argparse.Namespace, work: Work | None) -> None:
    from fedpace.cli import show
    from fedpace.theory import advisor, violations

    columns = ("rounds", "lr", "beta", "nu", "W1", "rounds x lr", "mean age", "variance", "lr c below")
    rows = [
        (
            f"{row.first}-{row.last}",
            *(f"{value:.4g}" for value in (row.rule.lr, row.rule.beta, row.rule.nu, row.w1, row.w2)),
            *(f"{value:.4g}" for value in (row.mean_age, row.variance, row.stability)),
        )
        for row in advisor.stage_rows(stages)
    ]
    show.table(columns, rows, "r" * len(columns), caption="exact; Sun et al. 2024, sections 3 and 4")
    show.console().print()
    for violation in violations(stages):
        show.console().print(f"outside the theory: {violation}")
    steps = () if work is None else [round(k) for k in work.steps]
    figures = advisor.server_momentum(stages, setting, args.client_lr, args.delay, steps)
    _show_figures("server momentum", figures)


def _stages(args: argparse.Namespace) -> Stages:
    import warnings

    from fedpace.theory import ScheduleWarning, multistage

    nu = 0.9 if args.nu is None and args.couple != "nag" else args.nu
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScheduleWarning)  # shown under the table instead
        return multistage(args.server_lr, args.rounds, args.beta, nu, args.couple)


def _show_figures(title: str, figures: Iterable[Figure]) -> None:
    from fedpace.cli import show

    rows = [(f.name, f"{f.value:.4g}", f.standing, f.source) for f in figures]
    show.table((title, "", "standing", "from"), rows, "trlt")
    show.console().print()


def numbers(text: str) -> list[float]:
    """`0.5,0.3`, as argparse's `type`."""
    return [number(word) for word in text.split(",")]


def counts(text: str) -> list[int]:
    """`2,5,9`, as argparse's `type`."""
    return [count(word.strip(), high=MOST_STEPS) for word in text.split(",")]


def epochs(text: str) -> tuple[int, int]:
    """`2` or `1..6`, as argparse's `type`."""
    low, dots, high = text.partition("..")
    return count(low, high=MOST_EPOCHS), count(high if dots else low, high=MOST_EPOCHS)
