"""The estimate of a run's memory: exact counts of vectors, a refusal, and memories that go to disk."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace import algorithms, server_opt, tasks
from fedpace.algorithm import Algorithm
from fedpace.compute import footprint as module
from fedpace.compute.footprint import STEP, TASK, WORKER, footprint, require_memory, spill_folder
from fedpace.errors import ConfigError
from fedpace.link import EF21, ErrorFeedback, TopK
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


def test_results_wait_in_the_pools_room_and_no_further() -> None:
    """Two workers with a queue of two each: of a model of 80 MB no more than eight results are ready."""
    large = SimpleNamespace(clients=CLIENTS, layout=SimpleNamespace(size=10_000_000))
    assert sizes(algorithms.fedavg(clients_per_round=40), large, workers=2)[2] == 8


def test_a_step_of_one_update_has_one_on_its_way(task: Any) -> None:
    assert sizes(algorithms.fedasync(), task, workers=2)[2] == 1


@pytest.mark.parametrize(
    ("compute", "workers", "steps", "counted"),
    [
        ("auto", 2, 4000, 2),
        ("auto", 2, 1, 1),
        ("pool", 2, 1, 2),
        ("vectorised", 2, 1, 2),
        ("inline", 2, 4000, 1),
    ],
)
def test_the_workers_that_are_chosen_are_counted(
    compute: str, workers: int, steps: int, counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    digits = tasks.load("digits", clients=4)
    algorithm = algorithms.fedavg(clients_per_round=1, steps=steps, batch_size=10)
    needed = footprint(algorithm, digits, 1, counted).total(spilled=False)
    monkeypatch.setattr(module, "available_bytes", lambda: needed - 1)
    with pytest.raises(ConfigError, match="this run must fit in memory"):
        fedpace.simulate(algorithm, digits, rounds=1, compute=compute, workers=workers)
    monkeypatch.setattr(module, "available_bytes", lambda: needed)
    monkeypatch.setattr("fedpace.experiment.engine", None)  # what comes next
    with pytest.raises(TypeError, match="not callable"):
        fedpace.simulate(algorithm, digits, rounds=1, compute=compute, workers=workers)


def test_what_clients_remember_grows_with_the_clients_met(task: Any) -> None:
    remembering = Algorithm(
        local=SGD(0.1, steps=1),
        pace=fedpace.pace.Rounds(clients_per_round=4),
        up=ErrorFeedback(TopK(1 / 8)),
    )
    assert sizes(remembering, task, rounds=3)[3] == 12
    assert sizes(remembering, task, rounds=100)[3] == CLIENTS


@pytest.mark.parametrize(
    "algorithm",
    [algorithms.scaffold(clients_per_round=4), algorithms.fednova_vr(clients_per_round=4, steps=2)],
)
def test_control_variates_are_counted_and_go_to_disk(
    algorithm: Algorithm, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of each client met, and two vectors of the server's: the control variate, and its change."""
    _, server, _, memories = sizes(algorithm, task, rounds=3)
    assert (server, memories) == (STEP + 2, 12)
    monkeypatch.setattr(module, "SPILL_BYTES", 12 * 4 * SIZE - 1)
    assert spill_folder(footprint(algorithm, task, 3), None) is not None


def kept(algorithm: Algorithm, task: Any, rounds: int = 1) -> float:
    found = footprint(algorithm, task, rounds)
    assert found.total(spilled=True) >= found.kept
    return found.kept / found.model


def test_cached_updates_are_counted(task: Any, tmp_path: Path) -> None:
    """A row of each client heard from, packed where it is; h_bar is the server's."""
    many: dict[str, Any] = {"buffer": 4, "concurrency": 8}
    assert kept(algorithms.ca2fl(**many), task) == 4
    assert kept(algorithms.ca2fl(**many), task, rounds=100) == CLIENTS
    assert kept(algorithms.mf_ca2fl(**many, cache_bits=4), task) == pytest.approx(4 * 4 / 32, rel=0.05)
    assert kept(algorithms.ca2fl(**many, spill=str(tmp_path)), task) == 0
    assert sizes(algorithms.ca2fl(**many), task)[1] == STEP + 1
    assert list(tmp_path.iterdir()) == []


def test_what_the_server_remembers_of_a_link_stays_in_memory(task: Any) -> None:
    """EF21: an estimate of each client's update on both ends, of which the client's alone can go to disk."""
    both = Algorithm(
        local=SGD(0.1, steps=1), pace=fedpace.pace.Rounds(clients_per_round=4), up=EF21(TopK(1 / 8))
    )
    assert (sizes(both, task)[3], kept(both, task)) == (4, 4)


def test_a_refusal_says_what_cannot_go_to_disk(task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available_bytes", lambda: 0)
    with pytest.raises(
        ConfigError, match=r"the server keeps of each client \(in memory; .* cache_bits= .*\)"
    ):
        require_memory(footprint(algorithms.ca2fl(buffer=4, concurrency=8), task, 1), spilled=True)


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
    needed = footprint(algorithms.two_way(memory="ef", clients_per_round=4), task, 1)
    assert needed.memories > 0
    assert spill_folder(needed, None) is None
    assert spill_folder(needed, "here") == "here"
    monkeypatch.setattr(module, "SPILL_BYTES", needed.memories - 1)
    assert spill_folder(needed, None) is not None
    assert needed.total(spilled=False) - needed.total(spilled=True) == needed.memories
