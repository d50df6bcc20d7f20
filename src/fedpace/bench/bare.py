"""The yardstick: local training written straight down in torch, in one process or in two."""

from __future__ import annotations

import copy
import mmap
import os
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import numpy as np
import torch
from torch import Tensor, nn

from fedpace.bench.workloads import PER_ROUND, Workload
from fedpace.random import stream
from fedpace.tasks import TorchTask


class Loop:
    """Clients' data, a network and an optimizer; the loop that is usually written first."""

    def __init__(self, workload: Workload, task: TorchTask):
        torch.set_num_threads(1)
        self.workload, self.task = workload, task
        self.network: nn.Module = copy.deepcopy(task.network).train()
        for p in self.network.parameters():
            p.data = p.data.clone()  # of its own, not views of the task's vector
        self.optimizer = torch.optim.SGD(self.network.parameters(), workload.lr)
        self.rng = stream(0, "batches")

    def train(self, client: int, start: list[Tensor], total: list[Tensor]) -> None:
        """Local steps of one client from `start`; where it ends is added to `total`."""
        with torch.no_grad():
            for p, value in zip(self.network.parameters(), start, strict=True):
                p.copy_(value)
        data = self.task.client_data(client)
        for batch in self._batches(len(data)):
            inputs, targets = data.take(batch)
            self.optimizer.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(self.network(inputs), targets))
            self.optimizer.step()
        with torch.no_grad():
            for value, p in zip(total, self.network.parameters(), strict=True):
                value += p

    def _batches(self, samples: int) -> list[np.ndarray]:
        size, work = self.workload.batch_size, self.workload.work
        steps = work.get("steps", work.get("epochs", 0) * -(-samples // size))
        batches: list[np.ndarray] = []
        while len(batches) < steps:
            order = self.rng.permutation(samples)
            batches += [order[low : low + size] for low in range(0, samples, size)]
        return batches[:steps]

    def zeros(self) -> list[Tensor]:
        return [torch.zeros_like(p) for p in self.network.parameters()]


def one_process(workload: Workload, task: TorchTask) -> Callable[[int], None]:
    """A function that trains so many rounds."""
    loop = Loop(workload, task)
    model = [p.detach().clone() for p in loop.network.parameters()]

    def run(rounds: int) -> None:
        for _ in range(rounds):
            total = loop.zeros()
            for client in loop.rng.choice(task.clients, PER_ROUND, replace=False):
                loop.train(int(client), model, total)
            for value, summed in zip(model, total, strict=True):
                value.copy_(summed / PER_ROUND)

    return run


def two_processes(workload: Workload, task: TorchTask) -> Callable[[int], None]:
    """The same with half the clients each, model and sums in shared memory."""
    loop = Loop(workload, task)
    model = [_shared(p.detach()) for p in loop.network.parameters()]
    helpers = [_helper(loop, model) for _ in range(2)]

    def run(rounds: int) -> None:
        for _ in range(rounds):
            chosen = loop.rng.choice(task.clients, PER_ROUND, replace=False)
            for half, (connection, _) in zip(np.split(chosen, 2), helpers, strict=True):
                connection.send(half)
            for connection, _ in helpers:
                connection.recv()
            for value, *sums in zip(model, *(total for _, total in helpers), strict=True):
                value.copy_(sum(sums[1:], sums[0]) / PER_ROUND)

    return run


def _helper(loop: Loop, model: list[Tensor]) -> tuple[Connection, list[Tensor]]:
    """A process that trains the clients it is sent, and the memory it leaves the sum in."""
    total = [_shared(value) for value in loop.zeros()]
    mine, theirs = Pipe()
    if os.fork():
        theirs.close()
        return mine, total
    try:
        mine.close()
        torch.set_num_threads(1)
        while True:
            clients = theirs.recv()
            for value in total:
                value.zero_()
            for client in clients:
                loop.train(int(client), model, total)
            theirs.send(None)
    finally:
        os._exit(0)


def _shared(value: Tensor) -> Tensor:
    """A copy in memory that forked processes share."""
    memory = torch.from_numpy(np.frombuffer(mmap.mmap(-1, 4 * value.numel()), np.float32)).view(value.shape)
    return memory.copy_(value)
