"""Polls, interruptions and requests that take the seconds of their links, second by second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import fedpace
from fedpace import Algorithm, algorithms
from fedpace.errors import ConfigError
from fedpace.pace import Scripted
from fedpace.server import Update
from fedpace.sim import Population
from fedpace.sim.observer import Observer

TASK = fedpace.tasks.quadratics([1.0, 2.0])
LINKS = {"up_s": 2.0, "down_s": 1.0}


class Uploads(Observer):
    """Local steps of every update that arrives."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def sent_up(self, client: int, update: Update) -> None:
        self.steps.append(update.steps)


def taken(algorithm: Algorithm, devices: Population, rounds: int) -> tuple[list[float], list[int]]:
    """When the server stepped, and with how many local steps."""
    seen = Uploads()
    run = fedpace.simulate(algorithm, TASK, devices, rounds=rounds, evaluate_every=None, observers=[seen])
    return [step.virtual_seconds for step in run.history], seen.steps


def polled(choices: list[list[int]], **more: Any) -> Algorithm:
    return algorithms.defedavg_niid(draws=1, steps=1, client_lr=0.1, select=Scripted(choices), **more)


@pytest.mark.parametrize(("delayed", "seconds"), [(False, [13.0, 15.0, 26.0]), (True, [13.0, 16.0, 26.0])])
def test_a_poll_for_a_kept_update_takes_its_way_to_the_client(delayed: bool, seconds: list[float]) -> None:
    """Both train until 1 + 10. Client 0's update comes at 13; client 1 is polled then, and hears of it at 13 + 1.

    Its next model was sent at 13 (asked for at 11, which took 2), trained until 14 + 10, and arrives at 26.
    """
    devices = Population.from_times(10.0, **LINKS, delayed_orders=delayed)
    assert taken(polled([[0], [1], [1]]), devices, 3)[0] == seconds


@pytest.mark.parametrize(
    ("saves", "last"), [(False, 13.0 + 1.0 + 10.0 + 2.0), (True, 19.0 + 1.0 + 10.0 + 2.0)]
)
def test_a_request_for_a_model_takes_its_way_to_the_server(saves: bool, last: float) -> None:
    """Client 1 reports at 13; client 0, done at 11, is polled then, hears of it at 14 and reports at 16.

    The model that it asked for at 11 was sent at 13. One that rests until polled is answered at 16 + 1, and asks.
    """
    devices = Population.from_times(10.0, **LINKS, delayed_orders=True)
    assert taken(polled([[1], [0], [0]], energy_saving=saves), devices, 3)[0] == [13.0, 16.0, last]


def test_one_that_was_asked_while_it_trained_asks_with_its_update() -> None:
    """Client 1 steps at 16. Client 0 trains until 21, its update comes at 26, after 2 and 3 for its bytes: so does the
    request, and is answered with the model of that step.
    """
    algorithm = polled([[1], [0], [0]])
    size = fedpace.simulate(algorithm, TASK, rounds=1, evaluate_every=None).history[0].bytes_up
    devices = Population.from_times((20.0, 10.0), **LINKS, up_s_per_byte=3.0 / size, delayed_orders=True)
    run = fedpace.simulate(algorithm, TASK, devices, rounds=3, evaluate_every=None)
    assert [step.virtual_seconds for step in run.history] == pytest.approx(
        [16.0, 26.0, 26.0 + 1.0 + 20.0 + 5.0]
    )
    assert [step.staleness for step in run.history] == [(0,), (1,), (0,)]


def interrupted(make: Callable[..., Algorithm], period_s: float) -> Algorithm:
    return make(
        clients_per_round=1, server_period=period_s, steps=10, client_lr=0.1, select=Scripted([[0], [0]])
    )


def test_an_interrupted_client_finishes_its_local_step() -> None:
    """It trains from 1 on, a second per step. Interrupted at 5.5, it hears of it at 6.5 and answers at 7 with 6 steps.

    Without delay it had 4 whole steps at 5.5. Interrupted at 5, it hears of it at the end of its fifth step.
    """
    slow, instant = (Population(step_s=1.0, **LINKS, delayed_orders=delayed) for delayed in (True, False))
    assert taken(interrupted(algorithms.favano, 5.5), slow, 1) == ([9.0], [6])
    assert taken(interrupted(algorithms.favano, 5.5), instant, 1) == ([7.5], [4])
    assert taken(interrupted(algorithms.favano, 5.0), slow, 1) == ([8.0], [5])


def test_one_that_finished_answers_when_the_interruption_reaches_it() -> None:
    """10 steps until 11; interrupted at 12.5."""
    slow = Population(step_s=1.0, **LINKS, delayed_orders=True)
    assert taken(interrupted(algorithms.favano, 12.5), slow, 1) == ([15.5], [10])


def test_an_interruption_that_brings_a_model_brings_its_bytes() -> None:
    """QuAFL, a second each way for bytes: it trains from 2 on. Sent at 6.5, here at 8.5, the seventh step ends at 9.

    It goes on at once. The next one is sent at 13, after the first answer came at 12, and is here at 15.
    """
    run = fedpace.simulate(interrupted(algorithms.quafl, 6.5), TASK, rounds=1, evaluate_every=None)
    size = run.history[0].bytes_up
    links = {**LINKS, "up_s_per_byte": 1 / size, "down_s_per_byte": 1 / size}
    slow = Population(step_s=1.0, **links, delayed_orders=True)
    seconds, steps = taken(interrupted(algorithms.quafl, 6.5), slow, 2)
    assert seconds == pytest.approx([9.0 + 3.0, 15.0 + 3.0]) and steps == [7, 6]


@pytest.mark.parametrize("name", ["defedavg_niid", "favano", "quafl"])
def test_a_run_is_resumed_with_orders_under_way(name: str, tmp_path: Path) -> None:
    given: Mapping[str, Any] = {"steps": 3, "client_lr": 0.1}
    given |= {"draws": 2} if name == "defedavg_niid" else {"clients_per_round": 1, "server_period": 1.5}
    algorithm = getattr(algorithms, name)(**given)
    devices = Population(step_s=(0.7, 1.3), **LINKS, delayed_orders=True)
    whole = fedpace.simulate(algorithm, TASK, devices, rounds=9)
    path = tmp_path / "checkpoint"
    middle = {"virtual_seconds": whole.history[3].virtual_seconds}
    fedpace.simulate(algorithm, TASK, devices, rounds=9, checkpoint=path, stop=middle)
    again = fedpace.simulate(algorithm, TASK, devices, rounds=9, checkpoint=path)
    assert again.history == whole.history and (again.model == whole.model).all()


def test_the_name_of_a_population_says_so_only_where_it_holds() -> None:
    """Saved runs of other populations keep their identity."""
    assert "delayed_orders" not in repr(Population()) and "delayed_orders=True" in repr(
        Population(delayed_orders=True)
    )
    with pytest.raises(ConfigError, match="delayed_orders must be"):
        Population(delayed_orders="yes")  # type: ignore[arg-type]
