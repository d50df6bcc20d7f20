"""fedpace advise ALGORITHM --plot: the bound of a theorem beside runs."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpace.cli import show
from fedpace.errors import ConfigError, DivergedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from fedpace.algorithm import Algorithm
    from fedpace.compute import Task
    from fedpace.theory.advisor import Guarantee, Plan

POINTS = 40  # models whose gradient is computed
MOST_CLIENTS = 50  # whose gradients make it up
RUN, BOUND, ADVISED = "#0072B2", "#0072B2", "#D55E00"


@dataclass(frozen=True, slots=True)
class Curve:
    """A run at some rates: the mean squared gradient up to each of some steps."""

    client_lr: float
    server_lr: float
    steps: Sequence[int]
    mean: Sequence[float]


def draw(args: argparse.Namespace, plan: Plan, task: Task | None) -> None:
    """Two runs, at the theorem's rates and at those recommended, and what the theorem promised."""
    from fedpace.record import plot
    from fedpace.theory.advisor import guarantee

    promise = guarantee(plan)
    if promise is None or task is None:
        raise ConfigError(f"--plot must be for an algorithm with a bound; got {plan.algorithm.name}")
    rate = min(plan.algorithm.local.lr, promise.limit)
    inside = _curve(args, task, plan, with_rates(plan.algorithm, rate, plan.server_lr))
    found = plan.recommended()
    advised = _curve(args, task, plan, with_rates(plan.algorithm, found.client_lr, found.server_lr))
    figure = picture(plan, promise, inside, advised)
    plot.save(figure, args.plot)
    bound = promise.bound(rate, plan.rounds)
    show.console().print(
        f"{args.plot}: mean squared gradient {inside.mean[-1]:.3g} at client_lr {rate:.3g}, bound {bound:.3g} "
        f"({promise.source}); {advised.mean[-1]:.3g} at the recommended rates"
    )


def with_rates(algorithm: Algorithm, client_lr: float, server_lr: float) -> Algorithm:
    """The algorithm with other rates; stages keep their proportions, and their W1 per rate."""
    server: Any = algorithm.server_opt
    if hasattr(server, "stages"):
        factor = server_lr / server.rules[0].lr
        stages = tuple((rounds, replace(rule, lr=rule.lr * factor)) for rounds, rule in server.stages)
        server = replace(server, stages=stages)
    elif hasattr(server, "lr"):
        server = replace(server, lr=server_lr)
    return replace(algorithm, local=replace(algorithm.local, lr=client_lr), server_opt=server)


def _curve(args: argparse.Namespace, task: Task, plan: Plan, algorithm: Algorithm) -> Curve:
    from fedpace.cli.population import population
    from fedpace.experiment import simulate
    from fedpace.theory.estimate import some_clients, squared_gradient

    devices = population(args.population)
    options: dict[str, Any] = {
        "keep_models": True,
        "evaluate_every": None,
        "traces": False,
        "seed": args.seed,
    }
    try:
        run = simulate(algorithm, task, devices, rounds=plan.rounds, **options)
    except DivergedError as error:
        run = error.run
    models = [task.initial(args.seed), *(run.models or ())]
    every = max(1, math.ceil(len(models) / POINTS))
    looked = list(range(0, len(models), every))
    weighted = getattr(algorithm.aggregate, "weighting", "") == "samples"
    clients = some_clients(task, MOST_CLIENTS, args.seed)
    squares = [
        squared_gradient(task, models[t], clients, by_samples=weighted, seed=args.seed) for t in looked
    ]
    mean = np.cumsum(squares) / np.arange(1, len(squares) + 1)
    return Curve(algorithm.local.lr, _lr(algorithm), [t + 1 for t in looked], mean.tolist())


def _lr(algorithm: Algorithm) -> float:
    server: Any = algorithm.server_opt
    return float(server.rules[0].lr if hasattr(server, "rules") else getattr(server, "lr", 1.0))


def picture(plan: Plan, promise: Guarantee, inside: Curve, advised: Curve) -> Figure:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from fedpace.record.plot import STYLE

    staged = hasattr(plan.algorithm.server_opt, "stages")
    steps = [plan.rounds] if staged else [step for step in inside.steps if step > 1] or [plan.rounds]
    bounds = [promise.bound(inside.client_lr, step) for step in steps]
    with rc_context(STYLE):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.subplots()
        look: dict[str, Any] = {"marker": "_", "markersize": 14} if staged else {"linestyle": "--"}
        axes.plot(steps, bounds, color=BOUND, label=f"bound at the rates below: {promise.source}", **look)
        for curve, colour, name in ((inside, RUN, "within its condition"), (advised, ADVISED, "recommended")):
            label = f"run, {name}: client_lr {curve.client_lr:.3g}, server_lr {curve.server_lr:.3g}"
            axes.plot(curve.steps, curve.mean, color=colour, label=label)
        axes.set_yscale("log")
        axes.set_xlabel("server steps")
        axes.set_ylabel("mean squared gradient so far")
        axes.legend(loc="best", fontsize=9)
        axes.set_title(f"{plan.algorithm.name}: what is promised and what happens", loc="left", fontsize=10)
    return figure
