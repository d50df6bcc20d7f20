"""The choice of an engine: by task, model and local rule, or as it was pinned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fedpace
from fedpace import algorithms, tasks
from fedpace.compute import ENGINES, engine, pins, workers
from fedpace.compute.auto import choose, expected_steps, solve_s
from fedpace.compute.device import device
from fedpace.compute.pins import Pin
from fedpace.errors import ConfigError
from fedpace.local import SGD

SHORT = SGD(0.1, steps=1, batch_size=2)
LONG = SGD(0.1, steps=4000, batch_size=10)


@pytest.fixture(scope="module", autouse=True)
def end_workers() -> Iterator[None]:
    yield
    workers.release()


@pytest.fixture(scope="module")
def digits() -> tasks.LoadedTask:
    return tasks.load("digits", clients=10)


def test_short_solves_stay_here_and_long_ones_go_to_workers(digits: tasks.LoadedTask) -> None:
    assert choose(digits, 2, SHORT) == Pin("inline", 1)
    assert choose(digits, 2, LONG) == Pin("pool", 2)


def test_one_worker_is_this_process(digits: tasks.LoadedTask) -> None:
    assert choose(digits, 1, LONG) == Pin("inline", 1)


def test_autograd_makes_steps_long() -> None:
    """The same network with and without a solver of its own."""
    data = [
        (
            tasks.load("digits", clients=1).client_data(0).inputs,
            tasks.load("digits", 1).client_data(0).targets,
        )
    ]
    plain, curved = (
        tasks.from_torch(
            nn.Sequential(nn.Flatten(), nn.Linear(64, 8), layer, nn.Linear(8, 10)),
            nn.functional.cross_entropy,
            data,
            data[0],
        )
        for layer in (nn.ReLU(), nn.Softplus())
    )
    assert (plain.solving, curved.solving) == ("compiled steps", "replayed steps")
    local = SGD(0.1, steps=10, batch_size=10)
    assert solve_s(plain, local) < solve_s(curved, local) / 10


@pytest.mark.parametrize(
    ("work", "steps"),
    [
        ({"steps": 7}, 7),
        ({"steps": (2, 4, 6)}, 4),
        ({"steps": ((1, 3), (5, 7))}, 4),
        ({"epochs": 2}, 2 * 3),
        ({"epochs": (1, 5)}, 3 * 3),
    ],
)
def test_expected_steps(work: dict[str, Any], steps: float) -> None:
    assert expected_steps(SGD(0.1, batch_size=10, **work), samples=25) == steps


def test_a_pin_is_followed_by_the_work_it_is_for(digits: tasks.LoadedTask) -> None:
    where = pins.keep(digits, SHORT, Pin("vectorised", 3))
    assert where.name == "tuned.json"
    assert choose(digits, 1, SHORT) == Pin("vectorised", 3)
    assert choose(digits, 1, SGD(0.7, steps=1, batch_size=2)) == Pin("vectorised", 3)  # whatever the rate
    assert choose(digits, 1, SGD(0.1, steps=2, batch_size=2)) == Pin("inline", 1)
    assert choose(tasks.load("digits", 10, model="softmax"), 1, SHORT) == Pin("inline", 1)
    pins.keep(digits, LONG, Pin("inline", 1))
    assert choose(digits, 2, LONG) == Pin("inline", 1)
    assert choose(digits, 2, SHORT) == Pin("vectorised", 3)


def test_a_pin_is_for_its_device_and_precision(
    digits: tasks.LoadedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the default device it says nothing, as before there were others."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    pins.keep(digits, SHORT, Pin("pool", 3))
    plain, usual = pins.kind(digits, SHORT), digits.device
    for place in (device("cuda:1"), device("cpu", "bf16")):
        monkeypatch.setattr(digits, "device", place)
        assert pins.find(digits, SHORT) is None
        assert pins.kind(digits, SHORT) == plain + place.label
        pins.keep(digits, SHORT, Pin("vectorised", 1))
        assert pins.find(digits, SHORT) == Pin("vectorised", 1)
    monkeypatch.setattr(digits, "device", usual)
    assert pins.find(digits, SHORT) == Pin("pool", 3)


def test_a_damaged_file_of_pins_pins_nothing(digits: tasks.LoadedTask) -> None:
    path = pins.keep(digits, SHORT, Pin("pool", 2))
    Path(path).write_text("{")
    assert choose(digits, 1, SHORT) == Pin("inline", 1)


@pytest.mark.parametrize(
    ("compute", "workers", "name"),
    [
        ("auto", 1, "inline, compiled steps"),
        ("inline", 1, "inline, compiled steps"),
        ("pool", 2, "pool of 2 workers, compiled steps"),
        ("vectorised", 1, "vectorised, compiled steps"),
        ("vectorised", 2, "pool of 2 workers, vectorised, compiled steps"),
    ],
)
def test_a_run_says_who_computed_it(compute: str, workers: int, name: str, digits: tasks.LoadedTask) -> None:
    algorithm = algorithms.fedavg(steps=1, clients_per_round=2)
    run = fedpace.simulate(algorithm, digits, rounds=1, compute=compute, workers=workers)
    assert run.summary["compute"] == name


def test_names_and_numbers_are_checked(digits: tasks.LoadedTask) -> None:
    with pytest.raises(ConfigError, match=r"did you mean pool\? compute must be one of auto, .*; got 'pol'"):
        engine("pol", digits)
    with pytest.raises(ConfigError, match="workers must be a whole number >= 1; got 0"):
        engine("pool", digits, 0)
    assert set(ENGINES) >= {"auto", "inline", "pool", "vectorised"}
