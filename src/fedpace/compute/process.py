"""The pool's end of a worker process, however that was started."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from multiprocessing.connection import Connection

from fedpace.compute.worker import Order
from fedpace.errors import FedpaceError

PATIENCE_S = 2.0  # for a worker to notice that its connection is closed


class NoWorkerError(FedpaceError):
    """A worker process cannot be had for this task; local training in this process still works."""


class Worker(ABC):
    """One process and the orders it has not answered yet."""

    def __init__(self, process: int, orders: Connection) -> None:
        self.process, self.connection, self.ready = process, orders, True
        self.unanswered: dict[int, Order] = {}

    def send(self, order: Order) -> None:
        """Raises OSError if the worker is gone."""
        self.unanswered[order.number] = order
        self.connection.send_bytes(self._pickled(order))

    def end(self) -> None:
        """An idle worker sees that its connection is closed; a busy or starting one is killed."""
        self.connection.close()
        if self.unanswered or not self.ready:
            self._kill()
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self._gone():
                return
            time.sleep(0.001)
        self._kill()

    @abstractmethod
    def await_ready(self) -> None:
        """Returns when the worker has its task; NoWorkerError says why it cannot have it."""

    @abstractmethod
    def _pickled(self, order: Order) -> bytes | memoryview:
        """As the process can read it."""

    @abstractmethod
    def _kill(self) -> None:
        """End the process and wait until it has ended."""

    @abstractmethod
    def _gone(self) -> bool:
        """Whether the process has ended."""
