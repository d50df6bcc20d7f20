"""The same app on real SuperNodes: the bits of `simulate`, and what is left when a part of Flower is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from tests.flower.stage import CLIENTS, Stage, children, wait_until
from tests.flower.test_simulation import CA2FL, ROUNDS, SYNCHRONOUS

pytestmark = pytest.mark.long

EVERYBODY = f"fedavg(client_lr=0.1, clients_per_round={CLIENTS})"


@pytest.fixture(scope="module")
def fleet(shared: Stage) -> Iterator[Stage]:
    shared.lighten()
    shared.superlink()
    for client in range(CLIENTS):
        shared.supernode(client)
    yield shared


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_a_synchronous_algorithm_has_the_bits_of_simulate(name: str, fleet: Stage) -> None:
    fleet.begin(name, SYNCHRONOUS[name], ROUNDS, in_order=True)
    fleet.finished(name)
    again = fleet.replayed(name)
    assert again.different == () and len(again.run.history) == ROUNDS
    assert again.run.model.tobytes() == fleet.simulated(SYNCHRONOUS[name], ROUNDS)


def test_ca2fl_equals_its_replay(fleet: Stage) -> None:
    fleet.begin("ca2fl", CA2FL, ROUNDS)
    fleet.finished("ca2fl")
    again = fleet.replayed("ca2fl")
    assert again.different == () and len(again.run.history) == ROUNDS


def test_arrivals_run_with_the_inbox_of_each_client_kept_by_the_server(fleet: Stage) -> None:
    fleet.begin("arrivals", "defedavg_iid(client_lr=0.1, buffer=2)", ROUNDS)
    fleet.finished("arrivals")
    assert fleet.replayed("arrivals").different == ()


def test_a_server_app_that_is_killed_is_continued_by_the_next_run(fleet: Stage) -> None:
    """Flower does not restart it: a new run id, the same journal, the same bits, nothing counted twice."""
    first = fleet.begin("killed", SYNCHRONOUS["scaffold"], ROUNDS, in_order=True)
    wait_until(lambda: fleet.steps("killed") >= 1, "the first step")
    apps = [pid for pid in children(fleet.processes["superlink"].pid) if "flwr-serverapp" in command_of(pid)]
    assert apps
    for pid in apps:
        os.kill(pid, signal.SIGKILL)
    second = fleet.begin("killed", SYNCHRONOUS["scaffold"], ROUNDS, in_order=True)
    assert first != second
    fleet.finished("killed")
    again = fleet.replayed("killed")
    assert again.different == () and len(again.run.history) == ROUNDS
    assert again.run.counters["resynchronised"] == 0
    assert again.run.counters["taken"] == sum(len(step.clients) for step in again.run.history)
    assert again.run.model.tobytes() == fleet.simulated(SYNCHRONOUS["scaffold"], ROUNDS)


def test_a_supernode_that_is_killed_has_left_and_the_run_goes_on(fleet: Stage) -> None:
    """Rounds of everybody, with a node gone in the middle of one; then it is back, as another node."""
    fleet.begin("lost-node", EVERYBODY, 4)
    wait_until(lambda: fleet.steps("lost-node") >= 1, "the first step")
    fleet.kill("node-2")
    wait_until(lambda: fleet.steps("lost-node") >= 2, "a step without it")
    fleet.supernode(2)
    fleet.finished("lost-node")
    again = fleet.replayed("lost-node")
    assert again.different == () and len(again.run.history) == 4
    assert [2 in step.clients for step in again.run.history].count(False) >= 1


def test_a_superlink_that_is_killed_is_found_again(stage: Stage) -> None:
    """With a database, and a SuperExec of its own: the ServerApp outlives it, and nothing is sent twice."""
    words = ("--database", str(stage.folder / "state.db"), "--isolation", "process")
    stage.lighten()
    stage.superlink(*words)
    runtime = ("--runtime-api-address", f"127.0.0.1:{stage.port}")
    stage.start("superexec", "flower-superexec", "--insecure", *runtime)
    for client in range(CLIENTS):
        stage.supernode(client)
    stage.begin("superlink", SYNCHRONOUS["fedavg"], ROUNDS, in_order=True)
    wait_until(lambda: stage.steps("superlink") >= 1, "the first step")
    stage.kill("superlink")
    stage.superlink(*words)
    stage.finished("superlink")
    again = stage.replayed("superlink")
    assert again.different == () and len(again.run.history) == ROUNDS
    assert again.run.counters["duplicates"] == 0
    assert again.run.model.tobytes() == stage.simulated(SYNCHRONOUS["fedavg"], ROUNDS)


def command_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode()
    except OSError:
        return ""
