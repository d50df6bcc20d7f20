"""A worker process: one request after another, vectors in and out through shared memory."""

from __future__ import annotations

import gc
import signal
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from fedpace.compute import interrupts
from fedpace.compute.arena import Arena
from fedpace.compute.inline import solve
from fedpace.compute.protocol import Request, Task
from fedpace.compute.together import fitting, solve_together
from fedpace.vector import Vector


@dataclass(frozen=True, slots=True)
class Order:
    """A request whose vectors lie in slots, as it travels to a worker."""

    number: int
    fields: dict[str, Any]  # of the request, but its vectors
    dtype: str
    start: int  # slot of the models
    model: int  # names the vector in the slot `start`: the same number, the same model
    result: int  # slot of the results
    correction: int | None = None  # slot of the models
    memory: int | None = None  # slot of the models
    kept: int = 0  # entries of the memory


@dataclass(frozen=True, slots=True)
class Reply:
    """The result lies in its slot, or its training failed."""

    number: int
    dtype: str = ""
    size: int = 0
    failure: Exception | None = None


def work(task: Task, models: Arena, results: Arena, orders: Connection, together: bool) -> None:
    """Until the other end hangs up. `together`: queued requests are computed in groups, as far as the task can."""
    interrupts.ignore()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # collecting would touch, and so copy, the pages shared with the parent
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    here: dict[int, tuple[Order, Request]] = {}
    starts: dict[int, tuple[int, Vector]] = {}  # slot -> what was last seen there
    while True:
        try:
            while not here or (together and orders.poll()):
                order: Order = orders.recv()
                here[order.number] = order, _request(models, order, task.layout.size, starts)
        except (EOFError, OSError):
            return
        for reply in _done(task, results, here, together):
            _send(orders, reply)


def _done(task: Task, results: Arena, here: dict[int, tuple[Order, Request]], together: bool) -> list[Reply]:
    """Compute the first order and those that fit with it; they leave `here`."""
    requests = {id(request): order for order, request in here.values()}
    first, *others = (request for _, request in here.values())
    group = fitting(task, first, others) if together else [first]
    chosen = [requests[id(request)] for request in group]
    for order in chosen:
        del here[order.number]
    try:
        deltas = solve_together(task, group) if together else [solve(task, first)]
        for order, delta in zip(chosen, deltas, strict=True):
            results.view(order.result, delta.size, delta.dtype)[:] = delta
        done = zip(chosen, deltas, strict=True)
        return [Reply(order.number, delta.dtype.str, delta.size) for order, delta in done]
    except Exception as failure:
        failure.add_note("in a worker process:\n" + traceback.format_exc())
        return [Reply(order.number, failure=failure) for order in chosen]


def _request(models: Arena, order: Order, size: int, starts: dict[int, tuple[int, Vector]]) -> Request:
    """Sessions of one model version begin from one array: a device holds what it was sent by identity."""

    def vector(slot: int, size: int = size) -> Any:
        view = models.view(slot, size, order.dtype)
        view.flags.writeable = False
        return view

    if starts.get(order.start, (-1, None))[0] != order.model:
        starts[order.start] = order.model, vector(order.start)
    return Request(
        start=starts[order.start][1],
        correction=None if order.correction is None else vector(order.correction),
        memory=None if order.memory is None else vector(order.memory, order.kept),
        **order.fields,
    )


def _send(orders: Connection, reply: Reply) -> None:
    if reply.failure is not None and not _travels(reply.failure):
        reply = Reply(reply.number, failure=RuntimeError(repr(reply.failure)))
    with suppress(OSError):  # the connection is closed; the next receive ends the loop
        orders.send(reply)


def _travels(failure: Exception) -> bool:
    """Whether it is the same at the other end; an exception may pickle and not unpickle."""
    try:
        return isinstance(ForkingPickler.loads(ForkingPickler.dumps(failure)), type(failure))
    except Exception:
        return False
