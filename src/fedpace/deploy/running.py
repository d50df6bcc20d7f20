"""`serve` and `join`: a run's two ends in one call each, for Python programs and for the command line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from fedpace.algorithm import Algorithm
from fedpace.compute.personal import personal_task
from fedpace.deploy import genesis
from fedpace.deploy.coordinator import Coordinator
from fedpace.deploy.estimates import newest
from fedpace.deploy.expectations import Patience
from fedpace.deploy.genesis import Genesis
from fedpace.deploy.joining import Joining
from fedpace.deploy.journal.disk_journal import DiskJournal, JournalLimits
from fedpace.deploy.journal.files import DiskFiles
from fedpace.deploy.local_task import LocalTask
from fedpace.deploy.measures import model_sha256, spread
from fedpace.deploy.measuring import Evaluate
from fedpace.deploy.memory import ClientMemory
from fedpace.deploy.owner import Owner
from fedpace.deploy.plan import RunPlan
from fedpace.deploy.serving import LINGER_S, Companion, Serving, Told
from fedpace.deploy.terms import Terms, needs_samples
from fedpace.deploy.transport import ClientTransport, ServerTransport
from fedpace.disk.files import require_folder
from fedpace.disk.locks import locked
from fedpace.errors import require, require_number
from fedpace.record import Run
from fedpace.record.run.evaluation import EvaluationInterval, every
from fedpace.record.run.inference import Arrays, known
from fedpace.server.private import require_private_task
from fedpace.tasks.pooling import named
from fedpace.vector import Layout, Vector

WHO_EVALUATES = ("auto", "server", "clients", "both")
Rules = Mapping[str, Callable[..., Any]]


class ServerTask(Protocol):
    """What a server has: the model and its layout; `evaluate(x)` too where it has data. Any `Task` will do."""

    @property
    def name(self) -> str: ...

    @property
    def layout(self) -> Layout: ...

    def initial(self, seed: int) -> Vector: ...


async def serve_async(
    algorithm: Algorithm,
    task: ServerTask,
    transport: ServerTransport,
    folder: str | Path,
    *,
    clients: int,
    rounds: int,
    seed: int = 0,
    samples: Sequence[float] | None = None,
    wait_for: int | None = None,
    in_order: bool = False,
    patience: Patience | None = None,
    journal: JournalLimits | None = None,
    evaluate: str = "auto",
    evaluate_every: int | str | EvaluationInterval | None = 1,
    rules: Rules | None = None,
    told: Sequence[Told] = (),
    beside: Sequence[Companion] = (),
    linger_s: float = LINGER_S,
    stoppable: Callable[[Callable[[str], None]], None] | None = None,
) -> Run:
    """Serve `rounds` server steps to clients that connect through `transport`; the same call continues after any end.

    `folder`: the run's journal, checkpoints and beginning. `clients`: how many may ever join; `wait_for` of them must
    have joined before the first model is sent (all with `in_order`, or where FedNova and others need their samples
    first; else one). `samples`: n_i of all clients, where they are known; otherwise what a client says when it first
    joins counts. `evaluate`: by the "server", by "clients" (weighted by samples), by "both"; "auto": by the server if
    the task has data. `rules`: of one's own, by name. `told`: called with every step and the coordinator. `beside`:
    contexts that last as long as the run, such as its fleet's status. `linger_s`: after the end, for clients that are
    away.
    `stoppable` is given a function that ends the run cleanly.
    """
    task = personal_task(task, algorithm, seed)
    terms = Terms(
        plan=RunPlan.of(algorithm, rules),
        clients=clients,
        rounds=rounds,
        seed=seed,
        samples=None if samples is None else tuple(map(float, samples)),
        wait_for=_wait_for(algorithm, clients, samples, in_order) if wait_for is None else wait_for,
        in_order=in_order,
        patience=patience or Patience(),
        normalisers=getattr(task, "normalisers", {}),
    )
    require_private_task(algorithm.privacy, task)
    by_server, by_clients = _evaluators(evaluate, task)
    place = require_folder(folder, "the server's folder")
    with locked(place):
        begun = _begun(place, genesis.new_run(task.name, terms, task.initial(seed), task.layout), rules)
        coordinator = begun.coordinator()
        serving = Serving(
            coordinator,
            transport,
            DiskJournal(DiskFiles(place), begun.run, journal).opened(coordinator),
            incarnation=int.from_bytes(os.urandom(6), "little"),
            evaluate=by_server,
            by_clients=by_clients,
            every=every(evaluate_every),
            told=told,
            linger_s=linger_s,
        )
        if stoppable is not None:
            stoppable(serving.stop)
        await serving.run(beside)
        run = outcome(begun, coordinator, serving.stopped, task)
        return replace(run, summary={**run.summary, "refused": serving.refused})


def serve(
    algorithm: Algorithm,
    task: ServerTask,
    listen: Callable[[], Awaitable[ServerTransport]],
    folder: str | Path,
    **options: Any,
) -> Run:
    """`serve_async` in a loop of its own. `listen` opens the transport in it; SIGINT and SIGTERM end it cleanly."""

    async def served() -> Run:
        with _signals() as stoppable:
            transport = await listen()
            return await serve_async(
                algorithm, task, transport, folder, **{"stoppable": stoppable, **options}
            )

    return asyncio.run(served())


async def join_async(
    task: LocalTask,
    transport: ClientTransport,
    *,
    data: int = 0,
    owner: Owner | None = None,
    folder: str | Path | None = None,
    give_up_after_s: float | None = None,
    stoppable: Callable[[Callable[[], None]], None] | None = None,
) -> str:
    """Take part in a run with this machine's data, until it is over; why it ended.

    `data`: where this client's samples are in the task, whatever its number is in the run. `folder`: where its state
    survives a restart; without one a restart is a lost disk, and costs a resynchronisation. `owner`: what the machine's
    owner decides. `give_up_after_s`: seconds without a server after which it ends; None: it waits for ever.
    `stoppable` is given a function that makes it leave cleanly.
    """
    if give_up_after_s is not None:
        require_number(give_up_after_s, "give_up_after_s", above=0, allowed="> 0")
    require(
        hasattr(task, "solve") and hasattr(task, "layout"), "task", task, "a model with this client's data"
    )
    with contextlib.ExitStack() as opened:
        memory = None
        if folder is not None:
            memory = ClientMemory(folder)
            opened.enter_context(locked(memory.path.parent))
        joining = Joining(
            task, transport, data=data, owner=owner, memory=memory, give_up_after_s=give_up_after_s
        )
        if stoppable is not None:
            stoppable(joining.leave)
        return await joining.run()


def join(task: LocalTask, connect: Callable[[], Awaitable[ClientTransport]], **options: Any) -> str:
    """`join_async` in a loop of its own. `connect` opens the transport in it; SIGINT and SIGTERM leave cleanly."""

    async def joined() -> str:
        with _signals() as stoppable:

            def leaving(leave: Callable[[], None]) -> None:
                stoppable(lambda _: leave())

            return await join_async(task, await connect(), **{"stoppable": leaving, **options})

    return asyncio.run(joined())


def outcome(begun: Genesis, coordinator: Coordinator, stopped: str | None = None, task: Any = None) -> Run:
    """A deployment as the run it is; its seconds are those of the real clock."""
    terms, server = begun.terms, coordinator.server
    return Run(
        algorithm=terms.plan.algorithm,
        task=begun.task,
        seed=terms.seed,
        rounds=terms.rounds,
        history=coordinator.history(),
        model=server.model,
        layout=begun.layout,
        counters=coordinator.counters(),
        summary={
            "compute": "deployed",
            "real_seconds": coordinator.state.now,
            "model_sha256": model_sha256(server.model),
            "run_id": begun.run.hex(),
            **({} if server.privacy is None else {"privacy": server.privacy.plain()}),
        },
        client_metrics={
            version: spread(measured, terms.clients)
            for version, measured in sorted(coordinator.state.client_metrics.items())
        },
        other_tensors=known(_other_tensors(begun, coordinator, task)),
        stopped=_stopped(coordinator, stopped),
    )


def _other_tensors(begun: Genesis, coordinator: Coordinator, task: Any) -> Arrays:
    """Running statistics of the newest model that has some, and all else that the server's module holds."""
    statistics, model = newest(coordinator.state), coordinator.server.model
    if hasattr(task, "tensors_with"):
        found: Arrays = task.tensors_with(model, statistics)
        return found
    return {} if statistics is None else named(statistics, begun.terms.normalisers, model.dtype)


def _stopped(coordinator: Coordinator, stopped: str | None) -> str | None:
    """Why it ended before its last step; a private run, because its budget was spent."""
    taken = coordinator.server.version >= coordinator.terms.rounds
    return None if taken else coordinator.server.exhausted or stopped


def _wait_for(algorithm: Algorithm, clients: int, samples: Sequence[float] | None, in_order: bool) -> int:
    """How many clients must have joined before the first model is sent, where nobody says."""
    return clients if in_order or (samples is None and needs_samples(algorithm, clients)) else 1


def _begun(place: Path, asked: Genesis, rules: Rules | None) -> Genesis:
    """The run in the folder, if it is the one asked for; a new one where there is none."""
    files = DiskFiles(place)
    found = genesis.read(files, rules)
    if found is None:
        asked.coordinator()  # what is refused leaves no run behind
        asked.write(files)
        return asked
    genesis.require_same(found, asked)
    return found


def _evaluators(who: str, task: Any) -> tuple[Evaluate | None, bool]:
    """How the server measures, and whether clients do."""
    require(who in WHO_EVALUATES, "evaluate", who, " or ".join(WHO_EVALUATES))
    own = _evaluating(task)
    if who in ("server", "both"):
        require(own is not None, "evaluate", who, '"clients": this server has no data')
    by_server = own if who in ("auto", "server", "both") else None
    return by_server, who in ("clients", "both") or (who == "auto" and own is None)


def _evaluating(task: Any) -> Evaluate | None:
    own = getattr(task, "evaluate", None)
    if own is None:
        return None
    return lambda x, statistics: own(x) if statistics is None else task.evaluate_with(x, statistics)


@contextlib.contextmanager
def _signals() -> Iterator[Callable[[Callable[[str], None]], None]]:
    """SIGINT and SIGTERM call what is given, once the loop is free; the second one kills as usual."""
    loop, handled = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)

    def remove() -> None:
        for number in handled:
            with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
                loop.remove_signal_handler(number)

    def register(stop: Callable[[str], None]) -> None:
        def stopping(number: int) -> None:
            remove()
            stop(signal.Signals(number).name)

        for number in handled:
            with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):  # not in the main thread
                loop.add_signal_handler(number, stopping, number)

    try:
        yield register
    finally:
        remove()
