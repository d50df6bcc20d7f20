"""What `fedpace bench` does around its stopwatch; no test here depends on a measured time."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedpace import tasks
from fedpace.bench import bare, codecs, comparison, peers, robust, server, tuning
from fedpace.bench.comparison import Failure, Measurement
from fedpace.bench.workloads import PER_ROUND, WORKLOADS, Workload
from fedpace.compute import workers
from fedpace.compute.pins import Pin
from fedpace.errors import ConfigError, FedpaceError

SMALL = Workload(
    "small", "digits", "digits", "softmax", 12, rounds=2, target=0.5, work={"epochs": 2}, batch_size=32
)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    workers.release()


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_every_workload_solves_ten_clients_per_step(workload: Workload) -> None:
    algorithm = workload.make_algorithm()
    pace = algorithm.pace
    members = [
        getattr(pace, name) for name in ("clients_per_round", "buffer", "draws") if hasattr(pace, name)
    ]
    assert PER_ROUND in members
    assert (algorithm.local.lr, algorithm.local.batch_size) == (workload.lr, 10)


def test_noise_of_the_same_shape_stands_in_for_missing_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise ConfigError("mnist is not at hand")

    monkeypatch.setattr(tasks, "load", missing)
    task = WORKLOADS["W1"].make_task()
    assert (task.name, task.clients, task.layout.size) == ("noise", 1000, 784 * 10 + 10)
    assert {task.samples(client) for client in range(1000)} == {60.0}


def test_the_bare_loops_train_as_long_as_fedpace_does() -> None:
    """Two epochs in batches of 32; a loop's result is the mean of where its clients ended."""
    task = SMALL.make_task()
    loop = bare.Loop(SMALL, task)
    sizes = [len(batch) for batch in loop._batches(int(task.samples(0)))]
    assert sum(sizes) == 2 * task.samples(0)
    steps = SMALL.make_algorithm().local.work(0, 0, task.samples(0), 1.0, np.random.default_rng(0))
    assert len(sizes) == steps


@pytest.mark.parametrize("make", [bare.one_process, bare.two_processes])
def test_the_bare_loops_learn(make: Any) -> None:
    task = SMALL.make_task()
    run = make(SMALL, task)
    before = float(nn.functional.cross_entropy(*_outputs(task, run)))
    run(5)
    assert float(nn.functional.cross_entropy(*_outputs(task, run))) < before / 2


def _outputs(task: tasks.LoadedTask, run: Callable[[int], None]) -> tuple[torch.Tensor, torch.Tensor]:
    weights, bias = inspect.getclosurevars(run).nonlocals["model"]
    inputs, targets = task.test.take(np.arange(360))
    return inputs.flatten(1) @ weights.T + bias, targets


SPEAKER = """
import json, sys
print(json.dumps({"ready": True}), flush=True)
seconds = iter(%r)
for line in sys.stdin:
    print(json.dumps({"seconds": int(line) * next(seconds), "peak_bytes": 7}), flush=True)
"""


def speaker(*seconds: float) -> list[str]:
    return [sys.executable, "-c", SPEAKER % (seconds,)]


def test_medians_over_turns_and_of_ratios_within_a_turn() -> None:
    commands = {"bare 2": speaker(1.0, 10.0, 2.0), "fedpace 1": speaker(0.5, 3.0, 0.8)}
    yardstick, ours = comparison.measure(SMALL, commands, repeats=3)
    assert yardstick == Measurement("small", "bare 2", 2.0, 1.0, 7)
    assert (ours.who, ours.seconds, ours.ratio) == ("fedpace 1", 0.8, pytest.approx(0.4))


def test_without_the_yardstick_there_is_no_sitting() -> None:
    with pytest.raises(FedpaceError, match="bare 2 ended early: exit code 3"):
        comparison.measure(SMALL, {"bare 2": [sys.executable, "-c", "raise SystemExit(3)"]}, repeats=1)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("import sys; print('ValueError: no', 'bye', sep='\\n', file=sys.stderr)", "ValueError: no"),
        ("import sys; print('first', 'last', '', sep='\\n', file=sys.stderr)", "last"),
        ("print('{\"ready\": true}', flush=True); raise KeyError('later')", "KeyError: 'later'"),
    ],
)
def test_a_contender_that_fails_is_shown_with_its_reason(program: str, reason: str) -> None:
    commands = {
        "bare 2": speaker(2.0, 2.0),
        "broken": [sys.executable, "-c", program],
        "last": speaker(1.0, 1.0),
    }
    yardstick, broken, last = comparison.measure(SMALL, commands, repeats=2)
    assert broken == Failure("small", "broken", f"ended early: {reason}")
    assert yardstick == Measurement("small", "bare 2", 2.0, 1.0, 7)
    assert last == Measurement("small", "last", 1.0, 0.5, 7)


def test_a_contender_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of the one that hangs little is expected: on a busy machine the others may take their time."""
    hangs = [sys.executable, "-c", "import time; print('{\"ready\": true}', flush=True); time.sleep(3600)"]
    failures: dict[str, str] = {}
    with comparison.ready(hangs) as contender, comparison.noting(failures, "hangs"):
        monkeypatch.setattr(comparison, "PATIENCE_S", 0.1)
        contender.turn(1)
    assert failures == {"hangs": "no output for 0.1 s"}


def test_peers_take_part_where_they_are_installed_and_know_the_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("flower", "flgo", "stranger"):
        python = tmp_path / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.touch()
    monkeypatch.delenv("FEDPACE_PEERS", raising=False)
    assert peers.commands(WORKLOADS["W1"]) == {}
    monkeypatch.setenv("FEDPACE_PEERS", str(tmp_path))
    assert peers.commands(WORKLOADS["W1"]).keys() == {"flgo", "flower"}
    python, script = tmp_path / "flgo" / "bin" / "python", peers.SCRIPTS / "with_flgo.py"
    assert peers.commands(WORKLOADS["W4"]) == {"flgo": [str(python), str(script), "W4"]}
    assert peers.commands(WORKLOADS["W4d"]) == {}


def test_every_peer_has_its_script_and_says_how_to_install_it() -> None:
    scripts = {path.stem: path.read_text() for path in peers.SCRIPTS.glob("with_*.py")}
    assert scripts.keys() == {f"with_{name}" for name in peers.PEERS}
    for name, text in scripts.items():
        assert "pip install" in text.splitlines()[0], name
    assert {workload for known in peers.PEERS.values() for workload in known} <= WORKLOADS.keys()


def test_peers_train_as_much_as_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the scripts share is written down a second time, as they cannot import fedpace."""
    monkeypatch.syspath_prepend(str(peers.SCRIPTS))
    same: Any = importlib.import_module("same")
    for name in same.CLIENTS:
        workload, task = WORKLOADS[name], WORKLOADS[name].make_task()
        samples = {int(task.samples(client)) for client in range(task.clients)}
        steps = {len(bare.Loop(workload, task)._batches(count)) for count in samples}
        assert (same.CLIENTS[name], {same.SAMPLES[name]}, {same.STEPS[name]}) == (
            task.clients,
            samples,
            steps,
        )
        assert (workload.batch_size, workload.lr, PER_ROUND) == (same.BATCH, same.LR, same.PER_ROUND)
        shapes = [tuple(p.shape) for p in same.network(name).parameters()]
        assert sorted(shapes) == sorted(tuple(p.shape) for p in task.network.parameters())
    assert WORKLOADS["W4"].make_algorithm().pace.concurrency == same.CONCURRENCY


def test_ratios_of_server_steps_and_codecs() -> None:
    steps = list(server.measure(size=200_000, updates=3, repeats=1))
    assert [step.rule for step in steps] == list(server.RULES)
    assert all(step.ratio == pytest.approx(step.seconds / step.streaming) for step in steps)
    found = {result.codec: result.share for result in codecs.measure(entries=100_000, repeats=1)}
    assert found.keys() == codecs.CODECS.keys()
    assert found["dense"] == pytest.approx(1, abs=1e-3) and found["4 bits, nearest"] == pytest.approx(
        1 / 8, abs=1e-2
    )


def test_robust_rules_keep_their_memory_and_numpy_agrees_with_the_median() -> None:
    """Small: what is compared with what, and the peak at a size where blocks are a small part of the updates."""
    costs = list(robust.measure(size=200_000, updates=20, repeats=1))
    assert [cost.rule for cost in costs] == list(robust.rules(20))
    for cost in costs:
        assert 1 < cost.memory <= cost.target == 1.25, cost
    rows = np.random.default_rng(0).normal(size=(20, 300_000)).astype(np.float32)
    np.testing.assert_array_equal(
        robust.aggregated(robust.rules(20)["Median()"], rows), robust.by_columns(rows, np.median)
    )
    with pytest.raises(ConfigError, match="updates must be a whole number >= 5; got 4"):
        next(robust.measure(10, 4))


def test_lanes_are_a_candidate_only_where_there_are_some() -> None:
    compiled = tasks.load("digits", clients=4, model="softmax")
    inputs, labels = torch.randn(6, 3), torch.arange(6) % 2
    network = nn.Sequential(nn.Linear(3, 2), nn.Softplus())
    curved = tasks.from_torch(network, nn.functional.cross_entropy, [(inputs, labels)], (inputs, labels))
    assert tuning.candidates(compiled, 1) == [Pin("inline", 1)]
    assert tuning.candidates(compiled, 2) == [Pin("inline", 1), Pin("pool", 2)]
    assert tuning.candidates(curved, 3)[2:] == [Pin("vectorised", 1), Pin("vectorised", 3)]
