"""Runs under the virtual clock: laziness, determinism, failures, and that nothing hangs or leaks."""

from __future__ import annotations

import gc
import hashlib
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace import algorithms as named
from fedpace.algorithm import Algorithm
from fedpace.check import Invariants
from fedpace.check.pace import Pull
from fedpace.cli import show
from fedpace.compute import Inline
from fedpace.compute.protocol import Request
from fedpace.errors import ConfigError, DivergedError, StalledError
from fedpace.link import TopK
from fedpace.local import SGD
from fedpace.pace import Rounds, Scripted
from fedpace.random import stream
from fedpace.record import Run
from fedpace.server import Update
from fedpace.sim import Observer, Population
from fedpace.sim.observer import StepRecord
from fedpace.sim.prepare import prepare
from fedpace.vector import Vector

LOCAL: dict[str, Any] = {"client_lr": 0.1, "steps": 2}
ALGORITHMS: dict[str, Algorithm] = {
    "fedavg": named.fedavg(clients_per_round=3, **LOCAL),
    "autonomous_fedgm, replayed": named.autonomous_fedgm(history=3, clients_per_round=3, **LOCAL),
    "fedbuff": named.fedbuff(buffer=2, concurrency=4, **LOCAL),
    "fedbuff, immediate": named.fedbuff(buffer=2, concurrency=4, dispatch="immediate", **LOCAL),
    "mf_ca2fl": named.mf_ca2fl(buffer=2, concurrency=4, **LOCAL),
    "fedasync": named.fedasync(concurrency=3, **LOCAL),
    "defedavg_niid": named.defedavg_niid(draws=3, **LOCAL),
    "defedavg_niid, saving": named.defedavg_niid(draws=3, energy_saving=True, **LOCAL),
    "defedavg_iid": named.defedavg_iid(buffer=3, **LOCAL),
    "defedavg_iid, distinct": named.defedavg_iid(buffer=3, distinct=True, **LOCAL),
    "defedavg_iid, reuse": named.defedavg_iid(buffer=3, reuse_model=True, **LOCAL),
    "favano": named.favano(clients_per_round=2, server_period=1.5, client_lr=0.1, steps=4),
    "quafl": named.quafl(clients_per_round=2, server_period=1.5, client_lr=0.1, steps=4),
}
CLIENTS = 8
DEVICES = Population(
    solve_s=tuple(np.linspace(0.5, 3.0, CLIENTS)), noise_s=0.5, up_s=0.1, down_s=0.2, drop=0.1
)


class Noisy(Pull):
    """A task whose solves draw from the stream of their client and session; some fail."""

    def __init__(self, clients: int, failing: frozenset[int] = frozenset()) -> None:
        super().__init__(clients)
        self.failing = failing

    def solve(self, request: Request) -> Vector:
        rng = stream(request.seed, "batches", request.client, request.session)
        delta: Vector = super().solve(request) + rng.normal(size=2)
        return np.full(2, np.nan) if request.client in self.failing else delta


def run(algorithm: Algorithm, task: Pull | None = None, rounds: int = 25, **options: Any) -> Run:
    options = {"population": DEVICES, "seed": 5, **options}
    return fedpace.simulate(algorithm, task or Noisy(CLIENTS), rounds=rounds, keep_models=True, **options)


def fingerprint(finished: Run) -> str:
    digest = hashlib.sha256(finished.model.tobytes())
    digest.update(repr((finished.history, finished.activities, finished.fates)).encode())
    return digest.hexdigest()


# ---------------------------------------------------------------- laziness


@pytest.mark.parametrize("name", ALGORITHMS)
def test_computing_what_nobody_uses_changes_nothing(name: str) -> None:
    lazy, eager = run(ALGORITHMS[name]), run(ALGORITHMS[name], eager=True)
    assert fingerprint(lazy) == fingerprint(eager)
    assert lazy.counters["solved"] <= eager.counters["solved"] <= lazy.counters["sessions"]


def test_polling_a_tenth_of_the_clients_saves_most_solves(capsys: pytest.CaptureFixture[str]) -> None:
    """DeFedAvg-nIID, N = 100, n = 10, DeFedAvg's devices: printed by the run, identical when all are computed."""
    algorithm, devices = (
        named.defedavg_niid(draws=10, client_lr=0.1, steps=50),
        fedpace.sim.presets.defedavg(),
    )
    lazy = run(algorithm, Noisy(100), rounds=40, population=devices)
    eager = run(algorithm, Noisy(100), rounds=40, population=devices, eager=True)
    assert lazy.model.tobytes() == eager.model.tobytes() and lazy.history == eager.history
    sessions, solved = lazy.counters["sessions"], lazy.counters["solved"]
    assert eager.counters["solved"] == eager.counters["sessions"] == sessions
    assert 1 - solved / sessions > 0.7
    show.result(lazy)
    assert f"{solved:,} computed, {sessions - solved:,} skipped, never used" in capsys.readouterr().out


@pytest.mark.parametrize(("up_s", "most"), [(0.0, 1), (1.0, 3)])
def test_updates_that_arrive_at_once_are_made_one_after_another(up_s: float, most: int) -> None:
    """So that a cohort's updates are never all in memory; the model is the same."""

    class Watching(Observer):
        under_way = 0

        def sent_up(self, client: int, update: Update) -> None:
            frames = [each for each in simulation.clients.values() if each.state.upload is not None]
            self.under_way = max(self.under_way, len(frames))

    algorithm, task, watching = ALGORITHMS["fedavg"], Noisy(CLIENTS), Watching()
    population = Population.from_times(1.0, up_s=up_s)
    simulation = prepare(algorithm, task, population, Inline(task), watching, rounds=3)
    simulation.begin()
    simulation.run(3)
    assert watching.under_way == most
    assert simulation.state.tally.uploads == simulation.state.tally.solved == 9
    eager = prepare(algorithm, task, population, Inline(task), rounds=3, eager=True)
    eager.begin()
    eager.run(3)
    assert simulation.server.model.tobytes() == eager.server.model.tobytes()


def test_a_dropped_session_is_not_computed() -> None:
    asked: list[tuple[int, int]] = []

    class Listening(Noisy):
        def solve(self, request: Request) -> Vector:
            asked.append((request.client, request.session))
            return super().solve(request)

    finished = run(ALGORITHMS["fedavg"], Listening(CLIENTS), population=Population(solve_s=1.0, drop=0.4))
    dropped = {(fate.client, fate.session) for fate in finished.fates if fate.fate == "dropped"}
    assert dropped and dropped.isdisjoint(asked)


def test_stored_results_that_are_polled_together_are_announced_together() -> None:
    """Else an engine with several workers would compute them one after the other."""
    heard: list[str] = []

    class Listening(Inline):
        def announce(self, request: Request, finish_s: float) -> None:
            heard.append("announced")

        def result(self, request: Request) -> Vector:
            heard.append("result")
            return super().result(request)

    task = Noisy(CLIENTS)
    simulation = prepare(ALGORITHMS["defedavg_niid"], task, DEVICES, Listening(task), rounds=20)
    simulation.begin()
    simulation.run(20)
    assert "announced announced result result" in " ".join(heard)
    assert heard.count("announced") >= heard.count("result")


# ---------------------------------------------------------------- the same seed, the same bits


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_same_seed_gives_the_same_bits_and_another_does_not(name: str) -> None:
    first = run(ALGORITHMS[name])
    assert fingerprint(run(ALGORITHMS[name])) == fingerprint(first)
    assert fingerprint(run(ALGORITHMS[name], seed=6)) != fingerprint(first)


def test_another_process_gives_the_same_bits() -> None:
    here = Path(__file__)
    code = (
        f"import sys; sys.path[:0] = [{str(here.parent)!r}]; import {here.stem} as t; "
        "print(*(t.fingerprint(t.run(algorithm)) for algorithm in t.ALGORITHMS.values()))"
    )
    source = Path(fedpace.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": str(source), "PYTHONHASHSEED": "77"}
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert found.stdout.split() == [fingerprint(run(algorithm)) for algorithm in ALGORITHMS.values()]


def test_a_clients_stream_does_not_depend_on_who_else_was_chosen() -> None:
    """Client 0's first update is the same whoever works beside it: x_1 = (d_0 + d_other) / 2."""
    ends = {}
    for other in (1, 2):
        algorithm = named.fedavg(select=Scripted([[0, other]]), clients_per_round=2, **LOCAL)
        alone = named.fedavg(select=Scripted([[other]]), clients_per_round=1, **LOCAL)
        both, single = (run(a, rounds=1, population=None).model for a in (algorithm, alone))
        ends[other] = 2 * both - single
    np.testing.assert_allclose(ends[1], ends[2], rtol=1e-14)


# ---------------------------------------------------------------- nothing hangs


@pytest.mark.parametrize("name", ALGORITHMS)
def test_when_all_clients_are_gone_the_run_ends_with_what_was_learned(name: str) -> None:
    gone = DEVICES.with_windows([(client, 0.0, 6.0 + client) for client in range(CLIENTS)])
    with pytest.raises(StalledError, match="no client is active and none will come back") as stalled:
        run(ALGORITHMS[name], rounds=500, population=gone)
    learned = stalled.value.run
    assert 0 < len(learned.history) < 500
    assert learned.virtual_seconds <= 6.0 + CLIENTS


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_run_without_anybody_ends_at_once(name: str) -> None:
    with pytest.raises(StalledError, match="after step 0 of 25"):
        run(ALGORITHMS[name], population=DEVICES.with_windows([(0, 5.0, 5.25)]))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_client_that_always_fails_is_counted_and_does_not_hold_up_the_others(name: str) -> None:
    finished = run(ALGORITHMS[name], Noisy(CLIENTS, frozenset({7})), rounds=40, observers=[Invariants()])
    assert len(finished.history) == 40
    assert finished.counters["not_finite"] > 0
    assert 7 not in {client for record in finished.history for client in record.clients}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_when_all_clients_fail_the_run_has_diverged(name: str) -> None:
    with pytest.raises(DivergedError, match="updates were not finite"):
        run(ALGORITHMS[name], Noisy(CLIENTS, frozenset(range(CLIENTS))))


def test_a_round_with_one_good_member_has_not_diverged() -> None:
    """Four updates in a row fail, over a border between rounds; nobody is to blame but clients 1 and 2."""
    twice = Scripted([[0, 1, 2], [1, 2, 3], [0, 1, 2], [1, 2, 3]])
    algorithm = named.fedavg(clients_per_round=3, select=twice, **LOCAL)
    finished = run(algorithm, Noisy(4, frozenset({1, 2})), rounds=4, population=None)
    assert [record.clients for record in finished.history] == [(0,), (3,), (0,), (3,)]


def test_a_round_of_few_who_count_twice_diverges_when_all_of_them_fail() -> None:
    algorithm = named.fedavg(clients_per_round=3, select=Scripted([[0, 0, 1], [2, 2, 2]]), **LOCAL)
    with pytest.raises(DivergedError, match="the last 2 updates were not finite, after step 0"):
        run(algorithm, Noisy(4, frozenset({0, 1})), population=None)


def test_one_after_another_in_rounds_of_one_is_enough_to_diverge() -> None:
    """After two in a row, once both have failed: one client among several never ends a run."""
    with pytest.raises(DivergedError, match=r"the last \d updates were not finite, after step 0"):
        run(named.fedavg(clients_per_round=1, **LOCAL), Noisy(2, frozenset({0, 1})), population=None)


@pytest.mark.parametrize("name", ["favano", "quafl"])
def test_an_interrupted_session_may_be_lost_too(name: str) -> None:
    devices = replace(DEVICES, drop=0.5)
    finished = run(ALGORITHMS[name], rounds=40, population=devices, observers=[Invariants()])
    lost, sent = finished.counters["dropped"], finished.counters["uploads"]
    assert 0.3 < lost / (lost + sent) < 0.7


@pytest.mark.parametrize("name", ALGORITHMS)
def test_one_client_alone_is_enough(name: str) -> None:
    """Seven of eight leave for good; whoever is waited for together with them is waited for no longer."""
    windows = [(0, 0.0, math.inf)] + [(client, 0.0, 2.0 + client) for client in range(1, CLIENTS)]
    finished = run(ALGORITHMS[name], rounds=40, population=DEVICES.with_windows(windows))
    assert {client for client in finished.history[-1].clients} == {0}


# ---------------------------------------------------------------- nothing leaks


@pytest.mark.parametrize("name", ALGORITHMS)
def test_old_models_are_let_go(name: str) -> None:
    """After 150 steps the store has the versions that sessions and broadcasts still need, and no others."""
    task, algorithm = Noisy(CLIENTS), ALGORITHMS[name]
    simulation = prepare(algorithm, task, DEVICES, Inline(task), Invariants(), rounds=150)
    simulation.begin()
    simulation.run(150)
    kept = simulation.server.state.versions
    assert len(kept.models) <= algorithm.pace.keeps + len(kept.holders)
    assert sum(kept.holders.values()) <= 4 * CLIENTS + 1
    assert simulation.training._made == {}


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (
            lambda: named.fedavg(clients_per_round=9),
            "clients_per_round must be <= the number of clients .8.; got 9",
        ),
        (
            lambda: named.favano(clients_per_round=9),
            "clients_per_round must be <= the number of clients .8.; got 9",
        ),
        (
            lambda: named.autonomous_fedgm(history=2, clients_per_round=9),
            "clients_per_round must be <= the number of clients .8.; got 9",
        ),
        (
            lambda: named.fedbuff(buffer=5, concurrency=4),
            "buffer must be <= concurrency .4. with batch dispatch",
        ),
        (
            lambda: named.fedbuff(buffer=2, concurrency=9),
            "concurrency must be <= the number of clients .8.; got 9",
        ),
        (lambda: named.fedbuff(buffer=9, concurrency=None), "buffer must be <= concurrency .8.; got 9"),
        (lambda: named.fedbuff(dispatch="later"), "dispatch must be batch or immediate; got 'later'"),
        (
            lambda: named.defedavg_iid(buffer=9),
            "buffer must be <= the number of clients .8., which train on each",
        ),
        (
            lambda: named.defedavg_iid(distinct=True, reuse_model=True),
            "distinct must be False with reuse_model",
        ),
        (lambda: named.defedavg_niid(draws=0), "draws must be a whole number >= 1; got 0"),
        (lambda: named.quafl(server_period=0.0), "server_period must be > 0 seconds; got 0.0"),
        (
            lambda: named.fedbuff(buffer=1, concurrency=1, select=Scripted([[0]])),
            "a group for every choice; got 1 groups and a choice number 2",
        ),
        (lambda: named.fedavg(select=Scripted([[8]])), "Scripted client must be in 0..7; got 8"),
        (
            lambda: named.fedbuff(
                buffer=1, concurrency=2, dispatch="immediate", select=Scripted([[0, 1], [1]])
            ),
            "Scripted client must be one that is not active already; got 1",
        ),
    ],
)
def test_what_cannot_run_is_said_in_one_line(algorithm: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(algorithm(), population=Population(solve_s=tuple(np.arange(1.0, CLIENTS + 1))))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "rounds must be a whole number >= 1; got 0"),
        ({"seed": -1}, "seed must be a whole number >= 0"),
    ],
)
def test_rounds_and_seeds_are_counts(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(ALGORITHMS["fedavg"], **options)


# ---------------------------------------------------------------- small things that decide a trace


def test_a_server_period_left_out_is_the_fastest_clients_cycle() -> None:
    devices = Population.from_times((2.0, 3.0, 5.0), up_s=0.25, down_s=0.5)
    finished = run(named.quafl(clients_per_round=2, **LOCAL), Noisy(3), rounds=2, population=devices)
    assert [record.virtual_seconds for record in finished.history] == pytest.approx([3.0, 5.75])


def test_scheme_a_draws_clients_by_their_samples() -> None:
    class Lopsided(Noisy):
        def samples(self, client: int) -> float:
            return 100.0 if client == 3 else 1e-9

    finished = run(named.fedavg(clients_per_round=2, select="share", **LOCAL), Lopsided(CLIENTS), rounds=3)
    assert {client for record in finished.history for client in record.clients} == {3}


def test_patience_closes_a_round_and_refuses_who_comes_late() -> None:
    slow = Population.from_times((1.0, 2.0, 50.0))
    patient = Algorithm(pace=Rounds(patience_s=3.0), local=SGD(lr=0.1, steps=1))
    finished = run(patient, Noisy(3), rounds=2, population=slow)
    assert [(record.virtual_seconds, record.clients) for record in finished.history] == [
        (3.0, (0, 1)),
        (6.0, (0, 1)),
    ]
    impatient = Algorithm(pace=Rounds(patience_s=0.5), local=SGD(lr=0.1, steps=1))
    first = run(impatient, Noisy(3), rounds=1, population=slow).history[0]
    assert (first.virtual_seconds, first.clients) == (1.0, (0,))  # the first answer, late as it is


def test_lossy_links_are_measured() -> None:
    lossy = run(replace(ALGORITHMS["fedavg"], up=TopK(0.5)), rounds=5)
    assert 0 < lossy.traffic["up"]["relative_error"] < 1
    assert run(ALGORITHMS["fedavg"], rounds=5).traffic["up"]["relative_error"] == 0


# ---------------------------------------------------------------- transfers in the background


def test_overlap_hides_transfers_behind_training_where_serial_does_not() -> None:
    """One client, 2 s of training, 1 s each way: a cycle of 4 s, or of 2 s once the pipeline is full."""
    times = {}
    for mode in ("serial", "overlap"):
        devices = Population.from_times(2.0, up_s=1.0, down_s=1.0, mode=mode)
        finished = run(
            named.defedavg_iid(buffer=1, reuse_model=True, **LOCAL), Noisy(1), 5, population=devices
        )
        times[mode] = [record.virtual_seconds for record in finished.history]
    assert times["serial"] == [4.0, 8.0, 12.0, 16.0, 20.0]
    assert times["overlap"] == [4.0, 6.0, 8.0, 10.0, 12.0]


@pytest.mark.parametrize("mode", ["serial", "overlap"])
def test_every_model_sent_is_counted(mode: str) -> None:
    """FAVANO: three clients get the first model, then two restart after each step; 36 bytes a model."""
    devices = Population.from_times((1.0, 1.5, 2.5), up_s=0.25, down_s=0.25, mode=mode)
    pairs = Scripted([[0, 1], [1, 2], [0, 2]] * 2)
    restarting = named.favano(client_lr=0.1, steps=2, clients_per_round=2, server_period=3.0, select=pairs)
    finished = run(restarting, Noisy(3), 5, population=devices)
    size = 20 + 2 * 8
    assert [record.bytes_down for record in finished.history] == [3 * size] + 4 * [2 * size]


@pytest.mark.parametrize("mode", ["serial", "overlap"])
def test_who_comes_late_fetches_the_newest_model(mode: str) -> None:
    """Client 2 comes at 2 s, after the broadcast of 1.5 s; a model takes half a second, in the background or not."""
    windows = [(0, 0.0, math.inf), (1, 0.0, math.inf), (2, 2.0, math.inf)]
    devices = Population.from_times(1.0, down_s=0.5, mode=mode).with_windows(windows)
    finished = run(named.defedavg_iid(buffer=2, **LOCAL), Noisy(3), 6, population=devices)
    own = [activity for activity in finished.activities if activity.client == 2 and activity.kind == "train"]
    assert own[0].start == 2.5
    assert finished.traffic["clients"][2]["bytes_down"] >= 20 + 2 * 8


def test_a_finished_session_waits_for_the_upload_before_it() -> None:
    """1 s of training, 3 s of upload: one unacknowledged upload at a time, the next follows at once."""
    devices = Population.from_times(1.0, up_s=3.0, mode="overlap")
    finished = run(named.defedavg_iid(buffer=1, reuse_model=True, **LOCAL), Noisy(1), 3, population=devices)
    assert [record.virtual_seconds for record in finished.history] == [4.0, 7.0, 10.0]
    assert [record.staleness for record in finished.history] == [(0,), (1,), (1,)]


def test_a_model_under_way_to_a_client_that_left_is_lost() -> None:
    devices = Population.from_times((1.0, 1.0, 1.0), down_s=2.0, mode="overlap").with_windows(
        [(0, 0.0, math.inf), (1, 0.0, 1.0), (2, 0.0, math.inf)]
    )
    finished = run(named.fedavg(**LOCAL), Noisy(3), 2, population=devices, observers=[Invariants()])
    assert [record.clients for record in finished.history] == [(0, 2), (0, 2)]


def test_an_update_under_way_from_a_client_that_left_is_lost() -> None:
    devices = Population.from_times(1.0, up_s=2.0).with_windows([(0, 0.0, math.inf), (1, 0.0, 2.0)])
    finished = run(named.fedavg(**LOCAL), Noisy(2), 2, population=devices, observers=[Invariants()])
    assert [record.clients for record in finished.history] == [(0,), (0,)]
    assert finished.counters["dropped"] == 1 and finished.bytes_up == 2 * (20 + 2 * 8)


def test_an_interrupted_client_without_a_model_gets_one_and_nobody_waits_for_it() -> None:
    """FAVANO ticks every 0.25 s, a model takes 0.5 s to come: the first two ticks find no active client."""
    devices = Population.from_times(1.0, down_s=0.5, mode="overlap")
    impatient = named.favano(clients_per_round=1, server_period=0.25, client_lr=0.1, steps=4)
    finished = run(impatient, Noisy(1), 3, population=devices, observers=[Invariants()])
    assert [record.virtual_seconds for record in finished.history] == [0.75, 1.0, 1.25]


def test_a_client_sent_a_model_at_every_tick_trains_on_each_as_it_comes() -> None:
    """Models take 1 s and 0.6 s to clients 1 and 2, and the server ticks every 0.25 s: several are on their way."""
    devices = Population.from_times(1.0, down_s=[0.0, 1.0, 0.6], mode="overlap")
    impatient = named.favano(clients_per_round=2, server_period=0.25, client_lr=0.1, steps=4)
    finished = run(impatient, Noisy(3), 9, population=devices, seed=0, observers=[Invariants()])
    members = [(record.clients, record.staleness) for record in finished.history]
    assert members[:5] == [((0,), (0,))] * 4 + [((1, 2), (4, 4))]
    assert members[5:] == [((0,), (1,)), ((2,), (4,)), ((0, 2), (1, 2)), ((0, 1), (0, 5))]


def test_a_model_on_its_way_to_a_client_that_leaves_is_void() -> None:
    """Client 0 is away from 1 to 1.5; the model sent at 0 reaches it at 2, when the server no longer waits for it."""
    devices = Population.from_times(1.0, down_s=[2.0, 2.0], mode="overlap")
    away = devices.with_windows([(0, 0.0, 1.0), (0, 1.5, math.inf), (1, 0.0, math.inf)])
    finished = run(named.fedavg(**LOCAL), Noisy(2), 2, population=away, observers=[Invariants()])
    assert [record.clients for record in finished.history] == [(1,), (0, 1)]
    assert [record.virtual_seconds for record in finished.history] == [3.0, 6.0]


def test_garbage_is_collected_rarely_while_it_runs_and_as_before_afterwards() -> None:
    before, during = gc.get_threshold(), []

    class Watch(Observer):
        def recorded(self, record: StepRecord, x: Vector) -> None:
            during.append(gc.get_threshold())
            if record.version == 2:
                raise RuntimeError("an observer's own mistake")

    with pytest.raises(RuntimeError, match="mistake"):
        run(ALGORITHMS["fedavg"], Noisy(CLIENTS, frozenset()), rounds=3, observers=[Watch()])
    assert during == [(20_000, before[1], 1000)] * 2 and gc.get_threshold() == before
