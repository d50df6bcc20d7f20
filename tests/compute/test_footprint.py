"""The estimate of a run's memory: exact counts of vectors, a refusal, and memories that go to disk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace import algorithms, server_opt, tasks
from fedpace.algorithm import Algorithm
from fedpace.compute import footprint as module
from fedpace.compute.footprint import STEP, TASK, WORKER, footprint, require_memory, spill_folder
from fedpace.errors import ConfigError
from fedpace.link import ErrorFeedback, TopK
from fedpace.local import SGD

SIZE, CLIENTS = 1000, 50


@pytest.fixture(scope="module")
def task() -> Any:
    return tasks.quadratics(np.zeros((CLIENTS, SIZE)))


def sizes(algorithm: Algorithm, task: Any, rounds: int = 1, workers: int = 1) -> tuple[float, ...]:
    found = footprint(algorithm, task, rounds, workers)
    return tuple(part / found.model for part in (found.task, found.server, found.updates, found.memories))


def test_states_of_the_server_are_counted(task: Any) -> None:
    """A momentum vector, Adam's two and AMSGrad's three."""
    rules = (server_opt.Momentum(1.0, 0.9, 0.5), 1), (server_opt.Adam(0.1), 2), (server_opt.AMSGrad(0.1), 3)
    for rule, vectors in rules:
        _, server, _, _ = sizes(Algorithm(local=SGD(0.1, steps=1), server_opt=rule), task)
        assert server == STEP + vectors


def test_updates_on_their_way_and_workers(task: Any) -> None:
    held, _, updates, memories = sizes(algorithms.fedavg(clients_per_round=4), task, workers=2)
    assert (held, updates, memories) == (TASK + 2 * WORKER, 4, 0)
    assert sizes(algorithms.fedavg(clients_per_round=4), task)[2] == 1


def test_what_clients_remember_grows_with_the_clients_met(task: Any) -> None:
    remembering = Algorithm(
        local=SGD(0.1, steps=1),
        pace=fedpace.pace.Rounds(clients_per_round=4),
        up=ErrorFeedback(TopK(1 / 8)),
    )
    assert sizes(remembering, task, rounds=3)[3] == 12
    assert sizes(remembering, task, rounds=100)[3] == CLIENTS


def test_a_run_that_cannot_fit_is_refused(task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available_bytes", lambda: 7 * 4 * SIZE - 1)
    line = "this run must fit in memory: it takes at least 0.0 GB .* for updates on their way"
    with pytest.raises(ConfigError, match=line):
        fedpace.simulate(algorithms.fedavg(clients_per_round=4), task, rounds=1)
    monkeypatch.setattr(module, "available_bytes", lambda: 7 * 4 * SIZE)
    require_memory(footprint(algorithms.fedavg(clients_per_round=4), task, 1), spilled=False)
    monkeypatch.setattr(module, "available_bytes", lambda: None)
    require_memory(footprint(algorithms.fedavg(clients_per_round=50), task, 1), spilled=False)


def test_many_memories_go_to_disk(task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = footprint(algorithms.two_way(clients_per_round=4), task, 1)
    assert needed.memories > 0
    assert spill_folder(needed, None) is None
    assert spill_folder(needed, "here") == "here"
    monkeypatch.setattr(module, "SPILL_BYTES", needed.memories - 1)
    assert spill_folder(needed, None) is not None
    assert needed.total(spilled=False) - needed.total(spilled=True) == needed.memories
