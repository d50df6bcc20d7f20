"""One call runs an experiment: `sim` under a recorder of `record`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from fedpace.algorithm import Algorithm
from fedpace.compute import Task, engine
from fedpace.errors import DivergedError, InterruptedRun, StalledError
from fedpace.record import History, Run
from fedpace.record.progress import shown
from fedpace.sim import Every, Population, Recorder
from fedpace.sim.simulate import outcome, prepare
from fedpace.sim.simulation import Simulation


def simulate(
    algorithm: Algorithm,
    task: Task,
    population: Population | None = None,
    *,
    rounds: int,
    seed: int = 0,
    workers: int = 1,
    compute: str = "auto",
    keep_models: bool = False,
    evaluate_every: int | str | Every | None = 1,
    eager: bool = False,
    progress: bool = False,
    traces: bool = True,
    recorders: Iterable[Recorder] = (),
) -> Run:
    """Run `rounds` server steps of `algorithm` on `task` under a virtual clock.

    `population`: the devices; None means one second per solve and free transfer.
    `workers`, `compute`: who runs local solves; they never change a result.
    `keep_models`: `Run.models[t]` is the model after step t+1.
    `evaluate_every`: steps (10), virtual seconds ("30s"), traffic ("5MB"), or None: never.
    `eager`: also compute what nobody uses; same result, more work.
    `progress`: show how far it is. `traces`: keep who did what when, for `Run.timeline()`.
    `recorders`: told everything as it happens.

    A run that ends early raises DivergedError, StalledError or InterruptedRun, whose `run` is what was
    learned until then.
    """
    began = time.perf_counter()
    history = History(keep_models=keep_models, traces=traces, others=recorders)
    simulation = prepare(
        algorithm,
        task,
        population,
        rounds=rounds,
        seed=seed,
        eager=eager,
        solver=engine(compute, task, workers),
        evaluate_every=evaluate_every,
        recorder=history,
    )

    def result() -> Run:
        end = outcome(simulation)
        counters = {name: value for name, value in end.facts.items() if isinstance(value, int)}
        facts = {name: value for name, value in end.facts.items() if isinstance(value, str)}
        return Run(
            algorithm=algorithm,
            task=task.name,
            seed=seed,
            rounds=rounds,
            history=history.steps,
            model=end.model,
            layout=task.layout,
            models=history.models,
            counters=counters,
            summary={**facts, "real_seconds": time.perf_counter() - began},
            activities=history.activities,
            fates=history.fates,
        )

    with _watched(history, algorithm, task, rounds, progress):
        _drive(simulation, rounds, result)
    return result()


@contextmanager
def _watched(history: History, algorithm: Algorithm, task: Task, rounds: int, wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    with shown(f"{algorithm.name or 'custom'} on {task.name}, {task.clients} clients", rounds) as watcher:
        history.others.append(watcher)
        yield


def _drive(simulation: Simulation, rounds: int, result: Callable[[], Run]) -> None:
    """To the end; whoever ends it early carries what was learned."""
    try:
        simulation.begin()
        simulation.run(rounds)
    except (DivergedError, StalledError) as error:
        error.run = result()
        raise
    except KeyboardInterrupt:
        raise InterruptedRun(result()) from None
    finally:
        simulation.engine.close()
