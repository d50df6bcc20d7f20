"""Experiments as the command line describes them, executed and saved in the run store."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fedpace.cli import experiment
from fedpace.cli.arguments import EVERY, words
from fedpace.cli.monitoring import Monitoring
from fedpace.cli.population import population
from fedpace.errors import ConfigError, InterruptedRun, StorageError
from fedpace.logs import LOG

if TYPE_CHECKING:
    from fedpace.algorithm import Algorithm
    from fedpace.compute.protocol import Task
    from fedpace.record import Run
    from fedpace.record.store.booked import StoreAs
    from fedpace.record.store.store import Store
    from fedpace.sim import Population


@dataclass(frozen=True, slots=True)
class Experiment:
    """All that `fedpace run` is told about one run, built and ready."""

    algorithm: Algorithm
    task: Task
    population: Population | None
    seed: int
    how: dict[str, Any]  # rounds, workers, compute, evaluate_every
    words: tuple[str, ...]  # what `fedpace run` must be told to do it again
    settings: str = ""  # its parameters, for a list of runs

    def about(self) -> dict[str, str]:
        """What decides the outcome."""
        from fedpace.compute import rounding_of
        from fedpace.record.run.evaluation import every
        from fedpace.record.store.identity import identity

        options = {"rounds": self.how["rounds"], "evaluate_every": every(self.how["evaluate_every"])}
        differs = rounding_of(self.how["compute"], self.task, self.how["workers"], self.algorithm.local)
        options |= {"compute": differs} if differs else {}
        return identity(self.algorithm, self.task, self.population, self.seed, **options, keep_models=False)


def one_experiment(args: argparse.Namespace, task: Task | None = None) -> Experiment:
    """What the arguments of `fedpace run` ask for; `task` if it is loaded already."""
    args = experiment.sized(args)
    [algorithm] = experiment.make_algorithms([args.algorithm], args).values()
    return Experiment(
        algorithm,
        task or experiment.load_task(args, args.seed),
        population(args.population),
        args.seed,
        experiment.execution(args),
        words(args.algorithm, args, args.seed, args.set),
        ", ".join(f"{name}={value}" for name, value in args.set),
    )


def check_options(args: argparse.Namespace) -> None:
    """Refuse what cannot be meant before anything is loaded."""
    from fedpace.record import Checkpoints
    from fedpace.record.run import trackers

    Checkpoints("", args.checkpoint_every)
    for where in args.track:
        trackers.require(where)
    if getattr(args, "no_store", False) and args.name is not None:
        raise ConfigError(f"--name must go with a run that is saved, without --no-store; got {args.name!r}")


def open_store(args: argparse.Namespace, *, needed: bool = False) -> Store | None:
    """The run store; None where it is not wanted, or cannot be had and is not needed."""
    if getattr(args, "no_store", False):
        return None
    from fedpace.record.store.store import Store

    try:
        return Store()
    except StorageError as error:
        if needed:
            raise
        LOG.warning("%s; the run is not saved", error)
        print(f"fedpace: note: {error}; the run is not saved", file=sys.stderr)
        return None


def execute(
    what: Experiment,
    store: Store | None,
    watch: Monitoring,
    *,
    name: str | None = None,
    every: int | str = EVERY,
) -> Run:
    """Run it; in the store, if there is one, from the first moment on."""
    from fedpace.record.store.booked import StoreAs

    if store is None:
        return _unsaved(what, watch)
    return simulated(
        what, watch, StoreAs(name, arguments=what.words, new=True, every=every, settings=what.settings)
    )


def simulated(what: Experiment, watch: Monitoring, store: StoreAs) -> Run:
    """Run it under a name of the store."""
    from fedpace import simulate
    from fedpace.study.trial import few_sessions

    return simulate(
        what.algorithm,
        what.task,
        what.population,
        seed=what.seed,
        **what.how,
        traces=watch.traces or few_sessions(what.algorithm, what.task, what.how["rounds"]),
        progress=watch.progress,
        store=replace(store, opened=watch.opened),
    )


def _unsaved(what: Experiment, watch: Monitoring) -> Run:
    """To the end, or to the event at which a signal comes: InterruptedRun then."""
    from fedpace import simulate
    from fedpace.interruption import interruptible

    with interruptible() as interruption, watch.opened(what.algorithm.name, what.about()) as observers:
        run = simulate(
            what.algorithm,
            what.task,
            what.population,
            seed=what.seed,
            **what.how,
            traces=watch.traces,
            progress=watch.progress,
            observers=[*observers, interruption],
        )
        if interruption.signal is not None and run.stopped is not None:
            raise InterruptedRun(run, interruption.signal)
        return run
