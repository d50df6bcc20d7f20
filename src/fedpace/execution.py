"""A simulation on its way: from a checkpoint or its beginning to its end, and what it has come to so far."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fedpace.algorithm import Algorithm
from fedpace.errors import DivergedError, InterruptedRun, StalledError, StorageError
from fedpace.logs import LOG
from fedpace.record import Checkpoints, History, Run
from fedpace.record.run.inference import OtherTensors
from fedpace.record.run.reporter import Reporter, counts, under_way
from fedpace.record.store.checkpointer import Checkpointer
from fedpace.sim import Observer, divergence
from fedpace.sim.distributions import ForModel
from fedpace.sim.simulation import Simulation


class Stopwatch:
    """Real seconds of a run, from the moment when everything is compiled and set up."""

    def __init__(self) -> None:
        self._made, self._started, self.before = time.perf_counter(), 0.0, 0.0

    def start(self) -> None:
        self._started = time.perf_counter()
        self.before = self._started - self._made

    def seconds(self) -> float:
        """0 until it is started."""
        return time.perf_counter() - self._started if self._started else 0.0


@dataclass(slots=True)
class Execution:
    """`algorithm` as it was asked for: the server's own may have constants of the population."""

    simulation: Simulation
    algorithm: Algorithm
    history: History
    reporter: Reporter
    watch: Stopwatch
    rounds: int
    parent: Mapping[str, Any]
    checkpointer: Checkpointer | None = None

    @contextmanager
    def checkpointed(self, plan: Checkpoints, about: Mapping[str, Any]) -> Iterator[None]:
        with Checkpointer(plan, about, self.watch.seconds).opened() as self.checkpointer:
            yield

    def run(self) -> None:
        """To the end; an error that ends it early carries the partial run."""
        simulation, checkpointer = self.simulation, self.checkpointer
        resumed = checkpointer is not None and checkpointer.resume(simulation, self.history)
        simulation.audience.stop_for(simulation.server.exhausted)  # a resumed run may have spent its budget
        try:
            self._begin(resumed)
            self.watch.start()
            self._step()
        except DivergedError as error:
            error.run, server = self.result(), simulation.server
            error.advice = divergence.advice(server.algorithm, simulation.task, server.seed, error.clients)
            LOG.error("%s", error)
            raise
        except (StalledError, StorageError) as error:
            error.run = self.result()
            LOG.error("%s", error)
            raise
        except KeyboardInterrupt:
            raise InterruptedRun(self.result()) from None

    def _begin(self, resumed: bool) -> None:
        """Compile and set up, evaluate the initial model, and tell the observers that the run begins."""
        simulation = self.simulation
        warm_up: Any = getattr(simulation.engine, "warm_up", None)
        if warm_up is not None:
            warm_up(simulation.server.algorithm.local)
        if resumed:
            simulation.audience.tell(Observer.resumed, self.history.steps)
        else:
            metrics = self.reporter.initial(simulation.server.model)
            simulation.begin()
            simulation.audience.tell(Observer.begun, metrics)

    def _step(self) -> None:
        simulation, rounds, checkpointer = self.simulation, self.rounds, self.checkpointer
        if checkpointer is None:
            simulation.run(rounds)
            return
        server, audience = simulation.server, simulation.audience
        while server.version < rounds and audience.stop is None:
            simulation.run(rounds, pause=checkpointer.next_look(server.version))
            if server.version < rounds and audience.stop is None:
                checkpointer.save_if_due(simulation, self.history)
        checkpointer.save_the_end(simulation, self.history, stopped=server.version < rounds)

    # ------------------------------------------------------------ what it has come to

    def result(self) -> Run:
        simulation, history = self.simulation, self.history
        server, task, known = simulation.server, simulation.task, counts(simulation)
        evaluated = bool(history.steps and history.steps[-1].metrics)  # after its last step
        return Run(
            algorithm=self.algorithm,
            task=task.name,
            seed=server.seed,
            rounds=self.rounds,
            history=history.steps,
            model=server.model,
            layout=task.layout,
            models=history.models,
            counters={name: n for name, n in known.items() if name not in ("bytes_up", "bytes_down")},
            summary={"compute": simulation.engine.name, **self._times(), **self._devices(), **self._about()},
            traffic=self.reporter.state.traffic.plain(),
            activities=[*history.activities, *under_way(simulation)] if history.traces else (),
            fates=history.fates,
            initial_metrics=history.initial,
            other_tensors=OtherTensors.of(task, server.model, evaluated=evaluated),
            stopped=self._stopped(),
        )

    def _times(self) -> dict[str, float]:
        real = self.watch.seconds() if self.checkpointer is None else self.checkpointer.real_seconds
        return {"real_seconds": real, "warm_up_seconds": self.watch.before}

    def _devices(self) -> dict[str, str]:
        """How long a local step takes, where that depends on the model."""
        step_s = getattr(self.simulation.devices.population, "step_s", None)
        return {"local_step": str(step_s)} if isinstance(step_s, ForModel) else {}

    def _about(self) -> dict[str, Any]:
        """What it has spent of its privacy budget, and the run that it starts from."""
        spent = self.simulation.server.privacy
        found: dict[str, Any] = {} if spent is None else {"privacy": spent.plain()}
        return {**found, "parent": dict(self.parent)} if self.parent else found

    def _stopped(self) -> str | None:
        stop = self.simulation.audience.stop
        return None if stop is None or self.simulation.server.version >= self.rounds else stop.reason
