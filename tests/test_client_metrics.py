"""Clients with test data of their own: measured after the last step, or every so many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import fedpace
from fedpace.algorithms import fedavg
from fedpace.errors import ConfigError

RULE = fedavg(client_lr=0.1, steps=2, batch_size=None)


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "home"))


def slope(value: float, samples: int = 4) -> tuple[Tensor, Tensor]:
    """y = value x on x = 1 .. samples."""
    x = torch.arange(1.0, samples + 1).reshape(-1, 1)
    return x / samples, value * x / samples


def task(clients: list[Any]) -> fedpace.tasks.OwnTask:
    torch.manual_seed(0)
    return fedpace.tasks.from_torch(nn.Linear(1, 1, bias=False), nn.MSELoss(), clients, slope(1.0))


PAIRS = [(slope(1.0), slope(2.0)), (slope(2.0), slope(-1.0, samples=2)), (slope(0.5), slope(1.0))]


def test_a_pair_of_data_sets_is_training_and_test_data() -> None:
    made = task(PAIRS)
    assert made.sizes == (4, 4, 4)
    run = fedpace.simulate(RULE, made, rounds=3)
    assert list(run.client_metrics) == [3]
    [weight] = run.model
    expected = [
        np.mean(((weight - s) * x.numpy()) ** 2)
        for s, (x, _) in zip((2, -1, 1), (t for _, t in PAIRS), strict=True)
    ]
    spread = run.client_metrics[3]
    np.testing.assert_allclose(spread.values, expected, rtol=1e-5)
    assert spread.name == "loss" and spread.worst_tenth == max(spread.values)
    assert spread.mean == pytest.approx(np.mean(expected), rel=1e-5)


def test_training_and_history_do_not_depend_on_them() -> None:
    plain = fedpace.simulate(RULE, task([train for train, _ in PAIRS]), rounds=3)
    tested = fedpace.simulate(RULE, task(PAIRS), rounds=3)
    np.testing.assert_array_equal(plain.model, tested.model)
    assert plain.history == tested.history and plain.client_metrics == {}


def test_data_sets_of_torch_make_a_pair_and_a_pair_of_tensors_does_not() -> None:
    as_sets = [tuple(TensorDataset(*part) for part in pair) for pair in PAIRS]
    one, other = (
        fedpace.simulate(RULE, task(as_sets), rounds=2),
        fedpace.simulate(RULE, task(PAIRS), rounds=2),
    )
    np.testing.assert_array_equal(one.client_metrics[2].values, other.client_metrics[2].values)
    assert task([slope(1.0), slope(2.0)]).client_tests is None


def test_some_clients_with_test_data_and_some_without_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"clients must be all pairs \(training, test\), or none"):
        task([PAIRS[0], slope(1.0)])


@pytest.mark.parametrize(
    ("clients", "message"),
    [
        (slope(1.0), r"clients must be a list of data sets, one per client: \[clients\]; got 'one tuple'"),
        (TensorDataset(*slope(1.0)), "one per client: .*got 'one TensorDataset'"),
        ({"a": slope(1.0)}, r"list\(clients.values\(\)\); got 'dict'"),
        ([], "data sets, at least one"),
        (7, "a list of data sets, one per client"),
    ],
)
def test_one_data_set_or_a_dictionary_is_answered_with_the_list_it_should_be(
    clients: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        task(clients)


def test_a_model_and_a_loss_in_each_others_place_are_told_apart() -> None:
    model, loss, clients, test = nn.Linear(1, 1), nn.MSELoss(), [slope(1.0)], slope(1.0)
    for wrong in ((loss, model, clients, test), (model, clients, loss, test), (model, loss, test, clients)):
        with pytest.raises(
            ConfigError, match=r"in the order from_torch\(model, loss, clients, test\); got \w+, "
        ):
            fedpace.tasks.from_torch(*wrong)


def test_a_rule_without_its_brackets_is_told_to_have_them() -> None:
    for rules in (
        {"aggregate": fedpace.aggregate.Mean},
        {"up": fedpace.link.TopK},
        {"local": fedpace.local.SGD},
    ):
        with pytest.raises(ConfigError, match=r"must be a value, with its brackets: \w+\(\.\.\.\); got"):
            fedpace.Algorithm(**{"local": RULE.local, **rules})


def test_other_test_data_make_another_experiment() -> None:
    changed = [(PAIRS[0][0], slope(3.0)), *PAIRS[1:]]
    assert repr(task(PAIRS)) == repr(task(PAIRS)) != repr(task(changed))


def test_clients_are_measured_every_so_many_steps_and_at_the_end() -> None:
    run = fedpace.simulate(RULE, task(PAIRS), rounds=5, client_metrics_every=2, keep_models=True)
    assert list(run.client_metrics) == [2, 4, 5]
    again = task(PAIRS).evaluate_clients(run.models[1])
    np.testing.assert_array_equal(run.client_metrics[2].values, again.values)
    stopped = fedpace.simulate(RULE, task(PAIRS), rounds=5, stop={"virtual_seconds": 3})
    assert list(stopped.client_metrics) == [3]


def test_a_named_task_is_measured_when_asked(tmp_path) -> None:
    digits = fedpace.tasks.load("digits", clients=5, model="softmax")
    run = fedpace.simulate(RULE, digits, rounds=2, client_metrics_every=1)
    assert run.client_metrics[2].name == "accuracy" and len(run.client_metrics[2].values) == 5
    run.client_metrics[2].plot(tmp_path / "clients.png")
    assert (tmp_path / "clients.png").stat().st_size > 1000


def test_what_measures_no_clients_is_refused() -> None:
    with pytest.raises(ConfigError, match="measures no clients"):
        fedpace.simulate(RULE, fedpace.tasks.quadratics([0.0, 1.0]), rounds=1, client_metrics_every=1)


class StopAfter(fedpace.sim.Observer):
    """Ends a run after some step, as an interruption would."""

    def __init__(self, version: int) -> None:
        self.version = version

    def recorded(self, record, x) -> None:
        if record.version == self.version:
            raise fedpace.Stop("enough")


def same(found: Any, expected: Any) -> bool:
    return list(found) == list(expected) and all(
        found[t].name == expected[t].name and np.array_equal(found[t].values, expected[t].values)
        for t in found
    )


def test_measurements_survive_an_interruption_and_are_saved(tmp_path) -> None:
    """With a checkpoint folder and with the run store: as if the run had never been interrupted."""
    asked = {"rounds": 5, "client_metrics_every": 2}
    whole = fedpace.simulate(RULE, task(PAIRS), **asked)
    for kept in ({"checkpoint": tmp_path / "here"}, {"store": "measured"}):
        partial = fedpace.simulate(RULE, task(PAIRS), **asked, **kept, observers=[StopAfter(3)])
        assert list(partial.client_metrics) == [2, 3]
        again = fedpace.simulate(RULE, task(PAIRS), **asked, **kept)
        assert same(again.client_metrics, whole.client_metrics) and list(again.client_metrics) == [2, 4, 5]
    assert same(fedpace.runs().open("measured").load().client_metrics, whole.client_metrics)
    with pytest.raises(ConfigError, match="another client metrics every"):
        fedpace.simulate(RULE, task(PAIRS), rounds=5, client_metrics_every=1, store="measured")


def test_a_saved_run_that_is_made_longer_measures_as_often() -> None:
    digits = fedpace.tasks.load("digits", clients=3, model="softmax", client_test=0.3)
    fedpace.simulate(RULE, digits, rounds=2, client_metrics_every=2, store="short")
    longer = fedpace.runs().open("short").resume(rounds=4)
    assert list(longer.client_metrics) == [2, 4]


# ------------------------------------------------------------ a share held back, for data sets by name


def test_a_share_of_every_clients_samples_is_its_test_data() -> None:
    """Training and test samples of a client are those of its part, apart; training is on the former alone."""
    whole = fedpace.tasks.load("digits", clients=4, model="softmax", partition="dirichlet:1.0")
    held = fedpace.tasks.load(
        "digits", clients=4, model="softmax", partition="dirichlet:1.0", client_test=0.25
    )
    for client, part in enumerate(whole.parts):
        test = held.client_tests.parts[client]
        assert len(test) == round(0.25 * len(part))
        np.testing.assert_array_equal(np.sort(np.concatenate([held.parts[client], test])), part)
    assert held.sizes == tuple(map(len, held.parts))
    run = fedpace.simulate(RULE, held, rounds=2)
    network = held.network
    spread = held.evaluate_clients(run.model)
    for client, value in enumerate(spread.values):
        inputs, targets = held.client_tests[client].take(np.arange(len(held.client_tests[client])))
        with torch.no_grad():
            right = (network.eval()(inputs).argmax(1) == targets).double().mean()
        assert value == pytest.approx(float(right))
    np.testing.assert_array_equal(run.client_metrics[2].values, spread.values)


def test_a_task_with_a_share_held_back_reads_back_from_its_text() -> None:
    from fedpace.study.rebuild import task_from

    held = fedpace.tasks.load("digits", clients=3, model="softmax", client_test=0.5, label_smoothing=0.1)
    again = task_from(repr(held))
    assert repr(again) == repr(held) != repr(fedpace.tasks.load("digits", clients=3, model="softmax"))
    np.testing.assert_array_equal(again.client_tests.parts[1], held.client_tests.parts[1])


@pytest.mark.parametrize(
    ("share", "message"), [(1.0, "in .0, 1."), ("a", "a number in"), (-0.1, "in .0, 1.")]
)
def test_what_is_no_share_is_refused(share: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"client_test must be {message}"):
        fedpace.tasks.load("digits", clients=3, client_test=share)


def test_a_client_with_a_single_sample_has_none_to_hold_back() -> None:
    with pytest.raises(ConfigError, match="client_test must be 0 where a client has a single sample"):
        fedpace.tasks.load("digits", clients=1437, client_test=0.5)


def test_a_saved_run_keeps_those_of_its_last_model() -> None:
    run = fedpace.simulate(RULE, task(PAIRS), rounds=3, store="kept")
    found = fedpace.runs().open("kept").load().client_metrics[3]
    np.testing.assert_array_equal(found.values, run.client_metrics[3].values)
    assert found.name == "loss" and not found.higher_is_better
