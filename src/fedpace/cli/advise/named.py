"""fedpace advise ALGORITHM: the papers' limits and bounds for one algorithm on one task and one population."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fedpace.cli import experiment, show
from fedpace.cli.advise import tables
from fedpace.cli.advise.problem import PROBLEM
from fedpace.errors import ConfigError, FedpaceError

if TYPE_CHECKING:
    from fedpace.algorithm import Algorithm
    from fedpace.compute import Task
    from fedpace.theory import Setting, StatedQuantity
    from fedpace.theory.advisor import Plan
    from fedpace.theory.delays import Delays
    from fedpace.theory.two_way_bounds import Compression

DEFAULT_SIZE = 10_000  # parameters of the model without --task and --size
CLOCK_STEPS = 400  # server steps of the timing-only run
MEASURED_ROUNDS = 5  # in which codec errors are measured
# options that are also parameters of algorithms
AS_SETTINGS = (
    "client_lr",
    "batch_size",
    "momentum",
    "prox_mu",
    "steps",
    "epochs",
    "weighting",
    "beta",
    "nu",
    "couple",
)


def command(args: argparse.Namespace) -> int:
    """Show every section; with --plot, draw the bound and runs."""
    from fedpace.theory.advisor import advise

    args.set = [*_given(args), *args.set]
    task = _task(args)
    algorithm = experiment.make_algorithms([args.algorithm], args)[args.algorithm]
    plan, problem = make_plan(args, algorithm, task)
    found = advise(plan)
    tables.figures(f"{args.algorithm} on {_where(args, task)}", problem)
    _show_stages(plan)
    tables.sections(found)
    show.console().print(_line(plan))
    if args.picture is not None and plan.work is not None:
        from fedpace.record.report import plot
        from fedpace.theory import picture

        plot.save(picture.picture(plan.work), args.picture)
    if args.plot is not None:
        from fedpace.cli.advise import plot as bound

        bound.draw(args, plan, task)
    return 0


def _show_stages(plan: Plan) -> None:
    from fedpace.server_opt import Momentum, Stages

    server = plan.algorithm.server_opt
    if isinstance(server, Stages) and all(isinstance(rule, Momentum) for rule in server.rules):
        stale = "; max lr c: mean stability with these delays" if plan.delays.largest else ""
        tables.stage_table(server, plan.delays.chances, stale)


def _given(args: argparse.Namespace) -> list[tuple[str, Any]]:
    """Options such as --client-lr, as if they came with --set."""
    given = [(name, getattr(args, name)) for name in AS_SETTINGS if getattr(args, name) is not None]
    if args.clients_per_round is not None:
        given.append(("clients_per_round", args.clients_per_round))
    if args.server_lr is not None:
        given.append(("server_lr", args.server_lr[0] if len(args.server_lr) == 1 else args.server_lr))
    return given


def _task(args: argparse.Namespace) -> Task | None:
    if args.task is not None:
        return experiment.load_task(args, args.seed)
    if args.estimate or args.plot is not None:
        option = "--estimate" if args.estimate else "--plot"
        raise ConfigError(f"{option} needs --task to measure on; got none")
    if args.samples is not None:
        args.clients = len(args.samples)
    return None


def _where(args: argparse.Namespace, task: Task | None) -> str:
    return f"{args.clients} clients" if task is None else f"{task.name}, {task.clients} clients"


@dataclass(frozen=True, slots=True)
class Clients:
    """n_i by client, from a task, as given, or one each."""

    task: Task | None
    given: tuple[float, ...] | None

    def __call__(self, client: int) -> float:
        if self.task is not None:
            return self.task.samples(client)
        return 1.0 if self.given is None else self.given[client]


def make_plan(
    args: argparse.Namespace, algorithm: Algorithm, task: Task | None
) -> tuple[Plan, list[StatedQuantity]]:
    """The plan, and the constants it uses with their labels."""
    from fedpace.theory.advisor import Plan

    samples = Clients(task, None if args.samples is None else tuple(args.samples))
    _require_known_work(algorithm, samples, args)
    steps = _most_steps(algorithm, args.clients, samples)
    setting, problem = _setting(args, algorithm, task, steps)
    compression, cache_q = _codecs(args, algorithm, task, problem)
    plan = Plan(
        algorithm,
        setting,
        args.rounds,
        delays_of(algorithm, task, args, samples),
        samples,
        compression,
        cache_q,
    )
    return plan, problem


def _require_known_work(algorithm: Algorithm, samples: Clients, args: argparse.Namespace) -> None:
    if algorithm.local.epochs is not None and samples.task is None and samples.given is None:
        raise ConfigError(
            "local steps must be known: give --task, --samples or --set steps=K; got epochs and no samples"
        )
    if algorithm.local.seconds is not None:
        raise ConfigError("local work must be in steps or epochs for advice; got seconds")


def _most_steps(algorithm: Algorithm, clients: int, samples: Clients) -> int:
    outcomes = [algorithm.local.outcomes(client, samples(client)) for client in range(clients)]
    if None in outcomes:
        raise ConfigError(f"steps must have an entry for each of the {clients} clients; got fewer")
    return max(max(steps or (1,)) for steps in outcomes)


def _setting(
    args: argparse.Namespace, algorithm: Algorithm, task: Task | None, steps: int
) -> tuple[Setting, list[StatedQuantity]]:
    from fedpace.theory import Setting, StatedQuantity
    from fedpace.theory.estimate import estimate
    from fedpace.theory.setting import ASSUMED, MEASURED

    per_round = min(algorithm.pace.per_step or args.clients, args.clients)
    if args.estimate and task is not None:
        measured = estimate(task, algorithm.local.batch_size, seed=args.seed)
        setting = measured.setting(args.clients, steps, per_round)
        problem = [StatedQuantity(e.name, e.value, MEASURED, e.how) for e in measured.all]
    else:
        size = args.size or (DEFAULT_SIZE if task is None else int(task.layout.size))
        setting, problem = Setting(1.0, args.clients, steps, per_round, size=size), []
    given = {name: value for name, *_ in PROBLEM if (value := getattr(args, name)) is not None}
    for name, _, meaning in PROBLEM:
        if name in given or (not args.estimate and _matters(name, algorithm)):
            how = "given" if name in given else "--estimate measures it"
            problem.append(StatedQuantity(f"{name}, {meaning}", given.get(name, 1.0), ASSUMED, how))
    return replace(setting, **given), problem


def _matters(name: str, algorithm: Algorithm) -> bool:
    """Whether a theorem about this algorithm has this constant."""
    from fedpace.link import CompressedModel
    from fedpace.pace import Polled
    from fedpace.server_opt import AMSGrad

    adaptive = isinstance(algorithm.server_opt, AMSGrad)
    if name == "radius":
        return adaptive and isinstance(algorithm.down, CompressedModel)
    return name != "gradient" or adaptive or isinstance(algorithm.pace, Polled)


def _codecs(
    args: argparse.Namespace, algorithm: Algorithm, task: Task | None, problem: list[StatedQuantity]
) -> tuple[Compression | None, float | None]:
    """q, gamma and lambda on the task's own updates; and of a quantised cache."""
    if not args.estimate or task is None:
        return None, None
    from fedpace.theory import StatedQuantity
    from fedpace.theory.advisor.plan import claimed
    from fedpace.theory.compression import cache_quality, measure
    from fedpace.theory.estimate import some_clients
    from fedpace.theory.setting import MEASURED

    clients = some_clients(task, 10, args.seed)
    claim = claimed(algorithm, int(task.layout.size))
    compression, cache_q = None, cache_quality(task, algorithm, clients[0], args.seed)
    if claim.q or claim.threshold:
        seen = measure(task, algorithm, clients, MEASURED_ROUNDS, args.seed)
        how = f"largest in {MEASURED_ROUNDS} rounds of {len(clients)} clients, full participation (Figure 21)"
        q, gamma, lam = (max(getattr(one, name) for one in seen) for name in ("q", "gamma", "lam"))
        problem += [
            StatedQuantity("q_C, relative error of the codec", q, MEASURED, how),
            StatedQuantity("gamma, compressing before or after averaging", gamma, MEASURED, how),
            StatedQuantity("lambda, relative error of the lazy rule", lam, MEASURED, how),
        ]
        compression = replace(claim, q=min(q, 1 - 1e-9), gamma=gamma, lam=lam, down_gamma=gamma)
    if cache_q is not None:
        problem.append(
            StatedQuantity("q of the cache, E||Q(x)-x||² / ||x||²", cache_q, MEASURED, "one client's update")
        )
    return compression, cache_q


def delays_of(algorithm: Algorithm, task: Task | None, args: argparse.Namespace, samples: Clients) -> Delays:
    """From the pacing's distribution, or from a timing-only run on these devices."""
    from fedpace.theory.delays import exact_delays, seen_in

    known = exact_delays(algorithm.pace, args.clients)
    if known is not None:
        return known
    from fedpace.cli.population import population
    from fedpace.experiment import simulate
    from fedpace.theory.idle import Idle
    from fedpace.vector import Layout

    idle = (
        Idle(args.clients, samples, Layout.of({"x": (args.size or DEFAULT_SIZE,)}))
        if task is None
        else Idle.like(task)
    )
    options: dict[str, Any] = {"evaluate_every": None, "traces": False, "compute": "inline"}
    try:
        run = simulate(
            algorithm, idle, population(args.population), rounds=CLOCK_STEPS, seed=args.seed, **options
        )
    except FedpaceError as error:
        partial = getattr(error, "run", None)
        if partial is None or not partial.history:
            raise
        run = partial
    return seen_in(run.history, algorithm.pace, args.clients)


def _line(plan: Plan) -> str:
    """The advice in one line."""
    found = plan.recommended()
    now = f"client_lr {plan.algorithm.local.lr:g}, server_lr {plan.server_lr:g}"
    ours = f"client_lr {found.client_lr:.3g}, server_lr {found.server_lr:.3g}"
    return f"recommended: {ours} (now {now})"
