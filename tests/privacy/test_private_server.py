"""The server of a private run: which steps it takes, whom it excludes, and when it ends."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.server.hand import begun, frame, server, step_of, update

import fedpace
from fedpace.errors import ConfigError
from fedpace.pace import Buffered, Immediate, Poisson, Rounds, Scripted
from fedpace.pace.available import Available
from fedpace.privacy import AdaptiveClip, ClientDP, KeyedNoise, SeededNoise
from fedpace.server import Send
from fedpace.sim import Observer, Population
from fedpace.tasks import quadratics

pytest.importorskip("dp_accounting", reason="pip install 'fedpace[privacy]'")
DELTA = 0.01
TASK = quadratics([[1.0, -2.0], [4.0, 0.5], [3.0, 3.0], [0.0, 1.0], [2.0, 2.0], [-1.0, 0.0]])
LOCAL = dict(client_lr=0.25, steps=2)


class Exact:
    """No noise, so that the algebra shows."""

    def normal(self, size, *name):
        return np.zeros(size)


def private(pace, clients=3, **rule):
    rule = {"clip": 10.0, "delta": DELTA, **rule}
    return server(pace, clients, privacy=ClientDP(**rule), noise=Exact())


def sent(to, now=0.0):
    return [order.client for order in to.dispatch(now) if isinstance(order, Send)]


# ------------------------------------------------------------ every cohort makes a step


def test_the_divisor_is_the_cohort_that_was_expected():
    """Two of three answer: the sum is divided by three."""
    s = private(Rounds(None))
    s.dispatch(0.0)
    s.lost(2)
    s.receive(update(0, 3.0), 0.0)
    step = step_of(s.receive(update(1, 6.0), 0.0))
    assert step.x.tolist() == [3.0, 3.0] and step.epsilon == pytest.approx(s.privacy.epsilon)


def test_updates_that_privacy_clips_are_counted_against_the_clip_of_their_step():
    """An adaptive clip of 10 moves down when all updates are shorter, and the same update is too long then."""
    s = private(Rounds(None), adaptive=AdaptiveClip(quantile=0.5, rate=1.0, noise=1.0))
    counted = []
    for version in range(3):
        s.dispatch(0.0)
        for client, value in enumerate((0.1, 0.1, 4.0)):
            answer = s.receive(update(client, value, version + 1, version, round=version), 0.0)
        counted.append(step_of(answer).clipped)
    lengths = [4.0 * math.sqrt(2) > 10.0 * math.exp(-0.5 * steps) for steps in range(3)]
    assert counted == lengths == [0, 0, 1] and s.counts.clipped == 1


def test_a_cohort_of_which_nobody_answers_is_a_step():
    s = private(Rounds(None), clients=2)
    s.dispatch(0.0)
    assert s.lost(0) == ()
    [step] = s.lost(1)
    assert (step.version, step.clients, step.x.tolist()) == (1, (), [0.0, 0.0])


def test_an_empty_cohort_is_a_step_at_once():
    s = private(Rounds(1, Poisson()), clients=5)
    taken = 0
    for _ in range(12):
        chosen = sent(s)
        if not chosen:
            assert s.wake_at == 0.0
            [step] = s.woke(0.0)
            taken += step.clients == ()
        else:
            for client in chosen:
                s.lost(client)
    assert s.version == 12 and taken > 0


def test_without_privacy_an_empty_cohort_is_drawn_again():
    s = server(Rounds(1, Poisson()), 5)
    while not sent(s):
        assert s.woke(0.0) == ()
    assert s.version == 0


def test_patience_closes_a_round_of_which_nobody_answered():
    s = private(Rounds(None, patience_s=5.0), clients=2)
    s.dispatch(0.0)
    assert s.woke(4.0) == ()
    [step] = s.woke(5.0)
    assert step.clients == ()


@pytest.mark.parametrize("frames", [{"update": frame(math.nan, 1.0)}, {"update": b"nonsense"}, {}])
def test_an_unusable_update_counts_as_zero_and_takes_its_place(frames):
    """In a buffer, too: were it replaced by another client's, who is in a step would depend on its data."""
    s = private(Buffered(2, 3))
    s.dispatch(0.0)
    bad = s.receive(update(0, frames=frames), 0.0)
    assert not bad.accepted and bad.steps == ()
    step = step_of(s.receive(update(1, 4.0), 0.0))
    assert step.x.tolist() == [2.0, 2.0] and step.clients == (1,)
    assert s.state.settled.contributions == {0: 1, 1: 1}
    assert s.counts.not_finite + s.counts.malformed == 1


def test_without_privacy_an_unusable_update_leaves_its_place_free():
    s = begun(Buffered(2, 3))
    s.receive(update(0, frames={"update": b"nonsense"}), 0.0)
    assert s.receive(update(1, 4.0), 0.0).steps == ()


def test_clients_are_drawn_from_all_that_are_registered():
    """A draw from those that happen to be there would name each of them more often than k / N."""
    s = private(Rounds(3), clients=6)
    for client in range(1, 6):
        s.left(client)
    sizes = set()
    for _ in range(30):
        chosen = sent(s)
        sizes.add(len(chosen))
        for client in chosen:
            s.lost(client)
        if not chosen:
            s.woke(0.0)
    assert sizes == {0, 1} and s.version == 30


def test_poisson_cohorts_have_every_client_with_the_same_probability():
    rng = np.random.default_rng(1)
    draws = [Poisson().choose(3, 0, Available(10, {9}), frozenset(), lambda: rng) for _ in range(3000)]
    shares = np.bincount(np.concatenate(draws).astype(int), minlength=10) / 3000
    assert shares[9] == 0 and np.all(np.abs(shares[:9] - 0.3) < 5 * math.sqrt(0.21 / 3000))
    both = np.mean([0 in draw and 1 in draw for draw in draws])
    assert abs(both - 0.09) < 5 * math.sqrt(0.09 * 0.91 / 3000)  # independently


# ------------------------------------------------------------ contributions and budgets


def test_a_client_that_contributed_as_often_as_it_may_is_no_longer_chosen():
    s = private(Immediate(1), clients=3, contributions=1)
    seen = []
    while s.exhausted is None:
        [client] = sent(s)
        seen.append(client)
        s.receive(update(client, 1.0, version=s.version), 0.0)
    assert sorted(seen) == [0, 1, 2] and sent(s) == []
    assert s.exhausted == "0 of 3 clients have contributions left, of 1 each"
    assert s.privacy.uses == 1


def test_an_update_beyond_the_limit_is_refused():
    s = private(Rounds(None, Scripted([[0, 1], [0, 1], [1]])), contributions=1)
    s.dispatch(0.0)
    s.receive(update(0), 0.0)
    s.receive(update(1), 0.0)
    assert s.version == 1 and sent(s) == []
    answer = s.receive(update(0, session=2, version=1), 0.0)
    assert not answer.accepted


def test_a_budget_limits_contributions_where_sampling_hides_nobody():
    free = private(Immediate(1), clients=3, noise_multiplier=4.0)
    budget = free._private.accounting.epsilon(2, DELTA)
    s = private(Immediate(1), clients=3, noise_multiplier=4.0, epsilon=budget)
    while s.exhausted is None:
        [client] = sent(s)
        s.receive(update(client, session=s.last_taken(client) + 1, version=s.version), 0.0)
    assert s.version == 6 and s.privacy.epsilon == budget


def test_a_budget_too_small_for_one_step_is_refused():
    with pytest.raises(ConfigError, match="for one step"):
        private(Rounds(None), epsilon=1e-3)


def test_a_delta_that_lets_a_client_be_published_gets_a_warning():
    with pytest.warns(UserWarning, match="not below 1 / 3 clients"):
        private(Rounds(None), delta=0.4)


def test_in_a_tree_every_client_contributes_once():
    s = private(Rounds(1), clients=4, mechanism="tree", tree_steps=4)
    chosen = []
    for _ in range(8):
        [client] = sent(s)
        chosen.append(client)
        s.receive(update(client, session=s.last_taken(client) + 1, version=s.version), 0.0)
    assert sorted(chosen[:4]) == sorted(chosen[4:]) == [0, 1, 2, 3]
    assert s.privacy.uses == 2


def test_free_places_of_a_buffer_are_filled_when_a_new_tree_begins():
    s = private(Buffered(1, 3), clients=4, mechanism="tree", tree_steps=4)
    waiting = sent(s)
    for _ in range(12):
        client = waiting.pop(0)
        s.receive(update(client, session=s.last_taken(client) + 1, **held(s, client)), 0.0)
        waiting += sent(s)
    assert s.version == 12


def held(s, client):
    order = s.state.holds.orders[client]
    return {"version": order.version, "round": order.round}


def test_a_tree_has_no_more_steps_than_its_clients_can_fill():
    with pytest.raises(ConfigError, match="at most 2"):
        private(Rounds(2), clients=4, mechanism="tree", tree_steps=3)


# ------------------------------------------------------------ whole runs

FEDAVG = fedpace.algorithms.fedavg(clients_per_round=2, select="poisson", **LOCAL)
FEDBUFF = fedpace.algorithms.fedbuff(buffer=2, concurrency=4, **LOCAL)
DEVICES = Population.from_times([1.0, 1.7, 2.9, 1.1, 0.6, 2.2], up_s=0.1)


def with_privacy(algorithm, **rule):
    return replace(algorithm, privacy=ClientDP(**{"delta": DELTA, "noise_multiplier": 2.0, **rule}))


def test_history_says_what_was_spent_and_the_last_step_is_the_runs():
    run = fedpace.simulate(with_privacy(FEDAVG), TASK, DEVICES, rounds=6)
    spent = [record.epsilon for record in run.history]
    assert spent == sorted(spent) and spent[-1] == run.privacy.epsilon > 0
    assert (run.privacy.adjacency, run.privacy.accountant, run.privacy.uses) == ("add-or-remove", "PLD", 6)
    assert run.to_pandas()["epsilon"].tolist() == spent and '"privacy"' in run.to_json()


def test_what_was_spent_is_drawn_below_the_metrics():
    run = fedpace.simulate(with_privacy(FEDAVG), TASK, DEVICES, rounds=3)
    drawn = {axes.get_ylabel(): axes for axes in run.plot().axes if axes.get_ylabel()}
    [line] = drawn["epsilon"].lines
    assert line.get_ydata().tolist() == [record.epsilon for record in run.history]


def test_without_privacy_nothing_is_said_about_it():
    run = fedpace.simulate(FEDBUFF, TASK, DEVICES, rounds=2)
    assert run.privacy is None and "epsilon" not in run.to_json() and "epsilon" not in run.to_pandas()


def test_a_run_stops_before_its_budget_is_exceeded():
    longer = fedpace.simulate(with_privacy(FEDAVG), TASK, DEVICES, rounds=6)
    budget = longer.history[3].epsilon
    run = fedpace.simulate(with_privacy(FEDAVG, epsilon=budget), TASK, DEVICES, rounds=50, keep_models=True)
    assert len(run.history) == 4 and run.privacy.epsilon == budget
    assert run.stopped.endswith("allows 4 steps")


class Ends(Observer):
    def __init__(self, at):
        self.at = at

    def recorded(self, record, x):
        if record.version == self.at:
            raise fedpace.Stop("enough")


@pytest.mark.parametrize(
    "algorithm",
    [
        with_privacy(FEDAVG, adaptive=fedpace.privacy.AdaptiveClip(noise=5.0)),
        with_privacy(FEDBUFF, contributions=4),
        with_privacy(FEDBUFF, mechanism="tree", tree_steps=3),
    ],
    ids=["adaptive", "contributions", "tree"],
)
def test_a_resumed_run_continues_noise_and_accounting(algorithm, tmp_path):
    whole = fedpace.simulate(algorithm, TASK, DEVICES, rounds=8)
    fedpace.simulate(algorithm, TASK, DEVICES, rounds=8, checkpoint=tmp_path, observers=[Ends(3)])
    run = fedpace.simulate(algorithm, TASK, DEVICES, rounds=8, checkpoint=tmp_path)
    assert run.model.tobytes() == whole.model.tobytes()
    assert run.history == whole.history and run.privacy == whole.privacy


def test_a_run_that_spent_its_budget_stays_stopped_when_it_is_resumed(tmp_path):
    algorithm = with_privacy(FEDBUFF, contributions=1)
    runs = [fedpace.simulate(algorithm, TASK, DEVICES, rounds=9, checkpoint=tmp_path) for _ in range(2)]
    assert [(len(run.history), run.stopped) for run in runs] == [(3, runs[0].stopped)] * 2
    assert "contributions left" in runs[0].stopped


def test_a_saved_run_keeps_its_guarantee(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path))
    algorithm = with_privacy(FEDAVG)
    run = fedpace.simulate(algorithm, TASK, DEVICES, rounds=3, store="private")
    again = fedpace.simulate(algorithm, TASK, DEVICES, rounds=3, store="private")
    assert again.privacy == run.privacy and again.history == run.history


def test_noise_is_that_of_the_seed_or_of_the_key():
    rule = dict(privacy=ClientDP(delta=DELTA), pace=Rounds(None))

    def model(**noise):
        s = server(clients=2, **rule, **noise)
        s.dispatch(0.0)
        s.lost(0)
        s.lost(1)
        return s.model.tolist()

    assert model() == model() != model(noise=KeyedNoise(bytes(32)))
    assert model(noise=KeyedNoise(bytes(32))) == model(noise=KeyedNoise(bytes(32)))


def test_a_model_with_running_statistics_is_refused():
    torch = pytest.importorskip("torch")
    layers = torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2)
    data = torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64)
    task = fedpace.tasks.from_torch(
        torch.nn.Sequential(*layers), torch.nn.functional.cross_entropy, [data, data], data
    )
    fedavg = fedpace.algorithms.fedavg(steps=1)
    with pytest.raises(ConfigError, match="running statistics"):
        fedpace.simulate(replace(fedavg, privacy=ClientDP()), task, rounds=1)
    fedpace.simulate(fedavg, task, rounds=1, evaluate_every=None)


def test_a_run_that_begins_with_a_private_runs_model_continues_its_account():
    """Two and three steps are five, and a budget of four allows two more; the noise is another."""
    first = fedpace.simulate(with_privacy(FEDAVG), TASK, rounds=2)
    second = fedpace.simulate(with_privacy(FEDAVG), TASK, rounds=3, initial=first)
    whole = fedpace.simulate(with_privacy(FEDAVG), TASK, rounds=5)
    assert second.privacy.uses == 5 and second.privacy.epsilon == whole.privacy.epsilon
    budget = with_privacy(FEDAVG, epsilon=whole.history[3].epsilon)
    assert len(fedpace.simulate(budget, TASK, rounds=9, initial=first).history) == 2
    with pytest.raises(ConfigError, match="the same"):
        fedpace.simulate(with_privacy(FEDAVG, noise_multiplier=3.0), TASK, rounds=1, initial=first)
    assert SeededNoise(0).normal(1, 0, 0) != SeededNoise(0, 2).normal(1, 0, 0)
