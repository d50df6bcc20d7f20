"""fedpace advise ALGORITHM --plot: a theorem's bound and runs."""

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

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedpace.algorithm import Algorithm
    from fedpace.compute import Task
    from fedpace.theory.advisor import Guarantee, Plan

POINTS = 40  # models whose gradient is computed
MOST_CLIENTS = 50  # whose gradients make it up
RUN, BOUND, ADVISED = "#0072B2", "#0072B2", "#D55E00"


@dataclass(frozen=True, slots=True)
class Curve:
    """A run at some rates: the mean squared gradient up to each of some steps, and the loss there."""

    client_lr: float
    server_lr: float
    steps: Sequence[int]
    mean: Sequence[float]
    loss: Sequence[float]


def draw(args: argparse.Namespace, plan: Plan, task: Task | None) -> None:
    """Two runs, at the theorem's rates and at the recommended ones, and the bound."""
    from fedpace.record.report import plot
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
    losses = [float(task.evaluate(models[t])["loss"]) for t in looked]
    return Curve(algorithm.local.lr, _lr(algorithm), looked, mean.tolist(), losses)


def _lr(algorithm: Algorithm) -> float:
    server: Any = algorithm.server_opt
    return float(server.rules[0].lr if hasattr(server, "rules") else getattr(server, "lr", 1.0))


def picture(plan: Plan, promise: Guarantee, inside: Curve, advised: Curve) -> Figure:
    """Left the squared gradient and its bound, right the loss."""
    from matplotlib import rc_context

    from fedpace.display.figure import DisplayedFigure
    from fedpace.record.report.plot import STYLE

    with rc_context(STYLE):
        figure = DisplayedFigure(figsize=(10.5, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_bound(left, plan, promise, inside)
        for curve, colour, name in ((inside, RUN, "within its condition"), (advised, ADVISED, "recommended")):
            label = f"run, {name}: client_lr {curve.client_lr:.3g}, server_lr {curve.server_lr:.3g}"
            left.plot(curve.steps, curve.mean, color=colour, label=label)
            right.plot(curve.steps, curve.loss, color=colour)
        left.set_yscale("log")
        for axes, what in ((left, "running mean of the squared gradient norm"), (right, "test loss")):
            axes.set_xlabel("server steps")
            axes.set_title(what, loc="left", fontsize=10)
        figure.legend(loc="outside lower center", ncols=1, fontsize=9)
        figure.suptitle(f"{plan.algorithm.name}: convergence bound and measured runs", x=0.01, ha="left")
    return figure


def _draw_bound(axes: Axes, plan: Plan, promise: Guarantee, inside: Curve) -> None:
    """As a curve, or at the end alone where stages are made for one length."""
    staged = hasattr(plan.algorithm.server_opt, "stages")
    steps = [plan.rounds] if staged else [step for step in inside.steps if step] or [plan.rounds]
    bounds = [promise.bound(inside.client_lr, step) for step in steps]
    look: dict[str, Any] = {"marker": "_", "markersize": 14} if staged else {"linestyle": "--"}
    axes.plot(steps, bounds, color=BOUND, label=f"bound within its condition: {promise.source}", **look)
