"""What a worker process does: one solve after another, vectors in and out through shared memory."""

from __future__ import annotations

import gc
import signal
import sys
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from fedpace.compute.arena import Arena
from fedpace.compute.inline import solve
from fedpace.compute.protocol import Request, Task
from fedpace.local import SGD


@dataclass(frozen=True, slots=True)
class Order:
    """A request whose vectors lie in slots, as it travels to a worker."""

    number: int
    client: int
    session: int
    version: int
    local: SGD
    steps: int
    seed: int
    dtype: str
    start: int  # slot of the models
    correction: int | None  # slot of the models
    result: int  # slot of the results


@dataclass(frozen=True, slots=True)
class Reply:
    """The result lies in its slot, or the solve failed."""

    number: int
    dtype: str = ""
    failure: Exception | None = None


def work(task: Task, models: Arena, results: Arena, orders: Connection) -> None:
    """Until the other end hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then hangs up
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # collecting would touch, and so copy, the pages shared with the parent
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    while True:
        try:
            order: Order = orders.recv()
        except (EOFError, OSError):
            return
        _send(orders, _done(task, models, results, order))


def _done(task: Task, models: Arena, results: Arena, order: Order) -> Reply:
    try:
        size = task.layout.size
        delta = solve(task, _request(models, order, size))
        results.view(order.result, size, delta.dtype)[:] = delta
        return Reply(order.number, delta.dtype.str)
    except Exception as failure:
        failure.add_note("in a worker process:\n" + traceback.format_exc())
        return Reply(order.number, failure=failure)


def _request(models: Arena, order: Order, size: int) -> Request:
    def vector(slot: int) -> Any:
        view = models.view(slot, size, order.dtype)
        view.flags.writeable = False
        return view

    return Request(
        client=order.client,
        session=order.session,
        start=vector(order.start),
        version=order.version,
        local=order.local,
        steps=order.steps,
        seed=order.seed,
        correction=None if order.correction is None else vector(order.correction),
    )


def _send(orders: Connection, reply: Reply) -> None:
    try:
        orders.send(reply)
    except OSError:
        pass  # nobody is there any more; the next receive ends the loop
    except Exception:  # a failure that cannot travel
        orders.send(Reply(reply.number, failure=RuntimeError(repr(reply.failure))))
