"""Runs over letters and answers, in a fleet that obeys the rules of Flower's Grid."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.deploy.deployed import CLIENTS, ROUNDS, SEED, TASK, VARIANTS, made
from tests.deploy.letters.fleet import FIRST_NODE, Fleet, serve_fleet

import fedpace
from fedpace.deploy import Owner, replay
from fedpace.deploy.flower.letters import AnswerStatus, Letter, LetterAnswer, Undelivered
from fedpace.deploy.flower.server import require_request_and_reply
from fedpace.errors import ConfigError
from fedpace.pace import Replayed, Rounds
from fedpace.pace.protocol import Continuous, Interruptible


def fits(name: str) -> bool:
    behaviour = VARIANTS[name].pace.client
    polled = isinstance(behaviour, Continuous) and behaviour.polled
    return not polled and not isinstance(behaviour, Interruptible)


SHORT = [
    "fedavg",
    "scaffold",
    "two_way",
    "fedbaca",
    "ca2fl",
    "fedbuff, immediate",
    "autonomous_fedgm",
    "defedavg_iid",
    "defedavg_iid, reuse",
]


@pytest.mark.parametrize(
    "name",
    [
        name if name in SHORT else pytest.param(name, marks=pytest.mark.long)
        for name in VARIANTS
        if fits(name)
    ],
)
def test_a_run_of_letters_replays_to_its_bits_and_has_those_of_simulation_where_it_is_synchronous(
    name: str, tmp_path: Path
) -> None:
    algorithm = VARIANTS[name]
    synchronous = isinstance(algorithm.pace, Rounds | Replayed)
    fleet = Fleet(tmp_path)
    run = serve_fleet(algorithm, fleet, tmp_path / "server", in_order=synchronous)
    assert (len(run.history), run.stopped) == (ROUNDS, None)
    assert run.counters["malformed"] == run.counters["resynchronised"] == run.counters["duplicates"] == 0
    again = replay(tmp_path / "server", TASK)
    assert again.run.model.tobytes() == run.model.tobytes()
    assert again.different == ()
    assert again.retrained >= sum(len(set(step.clients)) for step in run.history)
    if synchronous:
        simulated = fedpace.simulate(algorithm, TASK, rounds=ROUNDS, seed=SEED, evaluate_every=None)
        assert run.model.tobytes() == simulated.model.tobytes()


def test_a_letter_is_for_a_model_receipts_and_welcomes_travel_with_it(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    run = serve_fleet(made("fedavg"), fleet, tmp_path / "server", in_order=True)
    assert fleet.sent == CLIENTS + sum(len(step.clients) for step in run.history)


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "ca2fl", "defedavg_iid"])
def test_a_server_that_ends_is_continued_and_nothing_is_counted_twice(name: str, tmp_path: Path) -> None:
    """The second server knows nothing of the letters that were under way, and their answers are lost."""
    algorithm, fleet, place = made(name), Fleet(tmp_path), tmp_path / "server"
    synchronous = isinstance(algorithm.pace, Rounds | Replayed)

    class Killed(Exception):
        pass

    def kill(step: object, coordinator: object) -> None:
        raise Killed

    with pytest.raises(Killed):
        serve_fleet(algorithm, fleet, place, in_order=synchronous, told=[kill])
    fleet.under_way.clear()
    run = serve_fleet(algorithm, fleet, place, in_order=synchronous)
    again = replay(place, TASK)
    assert again.run.model.tobytes() == run.model.tobytes() and again.different == ()
    assert len(run.history) == ROUNDS and run.counters["resynchronised"] == 0
    if synchronous:
        simulated = fedpace.simulate(algorithm, TASK, rounds=ROUNDS, seed=SEED, evaluate_every=None)
        assert run.model.tobytes() == simulated.model.tobytes()


def test_a_node_that_flower_cannot_reach_has_left_at_once_and_may_come_back(tmp_path: Path) -> None:
    """Rounds of everybody: with a grace of ten minutes, each would wait as long for the node that is gone."""
    fleet = Fleet(tmp_path)
    patience = fedpace.deploy.Patience(grace_s=600)
    lost = FIRST_NODE + 2
    answers = fleet.answers[lost]

    def once_it_trains() -> None:
        training = [node for node, letter in fleet.under_way.values() if letter.number > 0]
        if lost in training:
            fleet.answers.pop(lost, None)
        elif fleet.sent > 3 * CLIENTS:
            fleet.answers[lost] = answers

    fleet.before_pull = once_it_trains
    algorithm = made("fedavg", clients_per_round=CLIENTS)
    run = serve_fleet(algorithm, fleet, tmp_path / "server", patience=patience, rounds=8)
    assert len(run.history) == 8
    assert [2 in step.clients for step in run.history].count(False) >= 1
    assert run.counters["disconnected"] >= 1


def test_a_client_that_lost_its_disk_is_resynchronised(tmp_path: Path) -> None:
    fleet, victim = Fleet(tmp_path), tmp_path / "client-1"
    done = False

    def wipe() -> None:
        nonlocal done
        if not done and (victim / "link.json").exists() and fleet.sent > 2 * CLIENTS:
            shutil.rmtree(victim)
            done = True

    fleet.before_pull = wipe
    algorithm = made("scaffold", clients_per_round=CLIENTS)
    run = serve_fleet(algorithm, fleet, tmp_path / "server")
    assert done and len(run.history) == ROUNDS
    assert run.counters["resynchronised"] >= 1
    assert replay(tmp_path / "server", TASK).different == ()


def test_a_process_that_died_over_a_letter_is_not_continued(tmp_path: Path) -> None:
    """It may have saved its state and not its place: the same letter again must not be worked on twice."""
    fleet = Fleet(tmp_path)
    opened = fleet.answer(0, Letter("7-a", 0))
    assert (opened.status, len(opened.messages)) == (AnswerStatus.DONE, 1)
    (tmp_path / "client-0" / "link.json").unlink()
    assert fleet.answer(0, Letter("7-a", 1)).status is AnswerStatus.LOST
    fleet.answer(0, Letter("7-b", 0))
    assert fleet.answer(0, Letter("7-b", 2)).status is AnswerStatus.LOST
    assert fleet.answer(0, Letter("7-a", 1)).status is AnswerStatus.LOST
    assert fleet.answer(0, Letter("7-b", 1)).status is AnswerStatus.DONE


def test_a_client_whose_owner_says_no_trains_nothing_and_the_run_goes_on(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.owners[4] = Owner(accept=lambda: False)
    run = serve_fleet(made("fedavg", clients_per_round=CLIENTS), fleet, tmp_path / "server")
    assert len(run.history) == ROUNDS
    assert {client for step in run.history for client in step.clients} == set(range(CLIENTS)) - {4}


def test_a_client_whose_owner_said_no_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice it says no, to letters that carry nothing else."""
    monkeypatch.setattr("fedpace.deploy.flower.transport.ASK_AGAIN_S", 0.0)
    fleet, asked = Fleet(tmp_path), []

    def accept() -> bool:
        asked.append(True)
        return len(asked) > 3

    fleet.owners[4] = Owner(accept=accept)
    run = serve_fleet(made("fedavg", clients_per_round=CLIENTS), fleet, tmp_path / "server", rounds=12)
    assert 4 in run.history[-1].clients and 4 not in run.history[0].clients


def test_a_client_that_made_another_initial_model_gets_the_servers(tmp_path: Path) -> None:
    class Other(Fleet):
        def answer(self, number: int, letter: Letter) -> LetterAnswer:
            if number != 3:
                return super().answer(number, letter)
            before, TASK.initial = TASK.initial, lambda seed: before(seed) + 1  # type: ignore[method-assign]
            try:
                return super().answer(number, letter)
            finally:
                del TASK.initial  # type: ignore[method-assign]

    run = serve_fleet(made("two_way"), Other(tmp_path), tmp_path / "server", in_order=True)
    simulated = fedpace.simulate(made("two_way"), TASK, rounds=ROUNDS, seed=SEED, evaluate_every=None)
    assert run.model.tobytes() == simulated.model.tobytes()


def test_a_second_node_with_the_same_number_waits_until_the_first_is_gone(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.answers[99] = fleet.client(0)
    run = serve_fleet(made("fedavg"), fleet, tmp_path / "server", in_order=True)
    assert run.summary["refused"]["a client number that another node has"] >= 1
    assert replay(tmp_path / "server", TASK).different == ()


def test_where_no_node_can_take_part_the_run_ends_with_the_reason(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    refusing = "a SuperNode must say which client it is"
    fleet.answers = {7: lambda letter: LetterAnswer(letter.link, 0, AnswerStatus.REFUSED, reason=refusing)}
    run = serve_fleet(made("fedavg"), fleet, tmp_path / "server")
    assert run.stopped == f"no node can take part: {refusing}"


def test_a_client_app_that_fails_is_tried_again_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedpace.deploy.flower.transport.LONGEST_PAUSE_S", 0.0)
    fleet, tried = Fleet(tmp_path), []

    def fails(letter: Letter) -> Undelivered:
        tried.append(letter)
        return Undelivered(2, "ValueError")

    fleet.answers = {7: fails}
    run = serve_fleet(made("fedavg"), fleet, tmp_path / "server")
    assert len(tried) == 5
    assert run.stopped is not None and "failed 5 times in a row: ValueError" in run.stopped


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("defedavg_niid", "on Flower a client cannot start an upload"),
        ("favano", "a SuperNode takes no message while it trains"),
        ("quafl", "a SuperNode takes no message while it trains"),
    ],
)
def test_pacing_that_needs_a_standing_connection_is_refused(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        require_request_and_reply(made(name))
    assert "\n" not in str(refused.value)


def test_every_other_named_algorithm_is_taken_unless_it_is_personal() -> None:
    for name in VARIANTS:
        if not fits(name):
            continue
        if VARIANTS[name].personal is None:
            require_request_and_reply(VARIANTS[name])
            continue
        with pytest.raises(ConfigError, match="on Flower a client has no model of its own"):
            require_request_and_reply(VARIANTS[name])
