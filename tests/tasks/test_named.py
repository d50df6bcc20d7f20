"""Tasks by name: what is loaded, how it is split and measured, and what is refused."""

import numpy as np
import pytest
import torch

from fedpace.client_spread import ClientSpread
from fedpace.compute.protocol import Request
from fedpace.errors import ConfigError
from fedpace.local import SGD
from fedpace.tasks import PARTITIONS, TASKS, load
from fedpace.tasks.datasets import digits as module_of_digits
from fedpace.tasks.datasets.digits import digits
from fedpace.tasks.datasets.synthetic import synthetic
from fedpace.tasks.named import DEFAULTS
from fedpace.tasks.partition import partition


def trained(task, epochs, lr=0.1, batch_size=10):
    """One client, centralised."""
    local = SGD(lr=lr, epochs=epochs, batch_size=batch_size)
    steps = epochs * local.batches(task.samples(0))
    x = task.initial(0)
    return x + task.solve(Request(0, 0, x, 0, local, steps, 0, data=0))


@pytest.mark.parametrize(("model", "least"), [("softmax", 0.94), ("mlp", 0.94)])
def test_digits_are_learned(model, least):
    """Centralised, ten passes: both reach about 0.955 of 360 test images; two standard errors below that."""
    task = load("digits", 1, "iid", model)
    before, after = task.evaluate(task.initial(0)), task.evaluate(trained(task, 10))
    assert before["accuracy"] < 0.25
    assert after["accuracy"] >= least
    assert after["loss"] < 0.25 < 2 < before["loss"]


def test_digits_content():
    data = digits()
    assert data.x_train.shape == (1437, 8, 8) and data.x_test.shape == (360, 8, 8)
    assert np.bincount(np.concatenate([data.y_train, data.y_test])).tolist() == [
        178, 182, 177, 183, 181, 182, 181, 179, 174, 180,
    ]  # fmt: skip
    seen = {image.tobytes() for image in data.x_train}
    assert not any(image.tobytes() in seen for image in data.x_test)


def test_other_digits_are_refused(monkeypatch):
    monkeypatch.setattr(module_of_digits, "SHA256", "0" * 64)
    with pytest.raises(
        ConfigError, match="^digits of scikit-learn must have sha256 0{64}; got [0-9a-f]{64}$"
    ):
        digits()


def test_pixels_are_standardised():
    task = load("digits", 1)
    pixels = task.client_data(0).inputs
    assert pixels.shape == (1437, 1, 8, 8) and pixels.dtype == torch.float32
    assert abs(float(pixels.mean())) < 0.01 and abs(float(pixels.std()) - 1) < 0.01


def test_clients_hold_their_part_of_the_training_data():
    task = load("digits", 30, "dirichlet:0.5", seed=4)
    data = digits()
    assert [len(part) for part in task.parts] == [task.samples(k) for k in range(30)]
    assert sum(task.sizes) == 1437
    for client in (0, 17):
        held = task.client_data(client)
        part = task.parts[client]
        np.testing.assert_array_equal(held.targets.numpy(), data.y_train[part])
        np.testing.assert_allclose(
            held.inputs[:, 0].numpy() * 0.3760 * 16 + 0.3053 * 16, data.x_train[part], atol=1e-4
        )


def test_defaults_suit_the_data():
    assert (load("digits").clients, load("digits").model) == (100, "mlp")
    task = load("synthetic", 5)
    assert (str(task.partition), task.model) == ("Natural()", "softmax")
    assert set(DEFAULTS) == set(TASKS)
    for rule in set(PARTITIONS) - {"FILE.json"}:
        partition(rule.replace("ALPHA", "0.5").replace("K", "2").replace(":S", ":2"))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("digit",), "did you mean digits. task must be one of cifar10, .*; got 'digit'"),
        (("digits:3",), "did you mean digits. task must be one of .*; got 'digits:3'"),
        (("digits", 0), "clients must be a whole number >= 1; got 0"),
        (("digits", 1.5), "clients must be a whole number >= 1; got 1.5"),
        (("digits", 10, "iid", "mlp", -1), "seed must be a whole number >= 0; got -1"),
        (("digits", 10, "even"), "partition must be one of iid, "),
        (
            ("digits", 1438),
            r"clients must be <= 1437 \(1437 training samples, at least 1 per client\); got 1438",
        ),
        (("digits", 10, "iid", "gru"), "model must be one of cnn, .*; got 'gru'"),
        (("synthetic", 10, None, "cnn"), "model must be one of mlp, softmax; got 'cnn'"),
        (("synthetic:1", 10), "task must look like synthetic:ALPHA,BETA; got 'synthetic:1'"),
        (("synthetic:-1,0", 10), "synthetic alpha must be >= 0; got -1.0"),
    ],
)
def test_bad_requests_are_one_line(arguments, line):
    with pytest.raises(ConfigError, match=f"^{line}") as error:
        load(*arguments)
    assert "\n" not in str(error.value)


# ---------------------------------------------------------------- synthetic


def test_an_unknown_keyword_is_named_with_those_that_are_known():
    with pytest.raises(
        ConfigError, match="did you mean clients. parameter of load must be one of client_test, "
    ):
        load("digits", num_clients=10)


def test_synthetic_devices_have_their_own_size_and_a_tenth_for_testing():
    data = synthetic(1, 1, 30, 0)
    sizes = np.bincount(data.groups_train) + np.bincount(data.groups_test)
    assert len(sizes) == 30 and sizes.min() >= 50
    np.testing.assert_array_equal(np.bincount(data.groups_test), sizes // 10)
    assert data.x_train.shape[1] == 60 and data.classes == 10


def test_a_device_does_not_depend_on_how_many_there_are():
    few, many = synthetic(1, 1, 3, 7), synthetic(1, 1, 9, 7)
    for device in range(3):
        np.testing.assert_array_equal(
            few.x_train[few.groups_train == device], many.x_train[many.groups_train == device]
        )


def test_synthetic_features_have_the_covariance_of_the_paper():
    """Within a device the variance of feature j is j^-1.2; chi-square over all devices' samples."""
    data = synthetic(1, 1, 60, 3)
    for j in (1, 10, 60):
        column = data.x_train[:, j - 1].astype(float)
        sums, counts = np.bincount(data.groups_train, column), np.bincount(data.groups_train)
        residual = column - (sums / counts)[data.groups_train]
        freedom = len(column) - len(counts)
        ratio = float((residual**2).sum()) / j**-1.2
        assert abs(ratio - freedom) < 5 * np.sqrt(2 * freedom)


def test_beta_moves_the_devices_data_apart():
    """The centre of a device is N(B_k, 1) in every feature, B_k ~ N(0, beta): its mean over features spreads."""

    def spread(beta):
        data = synthetic(0, beta, 200, 5)
        centres = [data.x_train[data.groups_train == k].mean() for k in range(200)]
        return np.var(centres)

    # var of the mean over 60 features: beta^2 + 1/60 + small; relative standard error sqrt(2/199) = 0.1
    assert spread(0) == pytest.approx(1 / 60, rel=0.5)
    assert spread(2) == pytest.approx(4 + 1 / 60, rel=0.5)


# --------------------------------------------------------------- evaluation


def test_evaluation_is_the_mean_over_the_test_data():
    task = load("digits", 10, "iid", "softmax")
    x = trained(load("digits", 1, "iid", "softmax"), 1)
    weights, bias = x[:640].reshape(10, 64), x[640:]
    pixels = (digits().x_test.reshape(360, 64) / 16 - 0.3053) / 0.3760
    scores = pixels @ weights.T.astype(float) + bias
    top = scores.max(axis=1, keepdims=True)
    log_p = scores - top - np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
    labels = digits().y_test
    shown = task.evaluate(x)
    assert shown["loss"] == pytest.approx(-log_p[np.arange(360), labels].mean(), rel=1e-5)
    assert shown["accuracy"] == pytest.approx((scores.argmax(1) == labels).mean(), abs=1e-12)


def test_training_loss_counts_every_sample_once():
    whole, split = load("digits", 1, "iid", "mlp"), load("digits", 7, "dirichlet:0.3", "mlp")
    x = whole.initial(3)
    assert split.training_loss(x) == pytest.approx(whole.training_loss(x), rel=1e-6)


def test_client_accuracy_is_the_accuracy_per_class_weighted_by_what_they_hold():
    task = load("digits", 20, "classes:2", "softmax")
    x = trained(load("digits", 1, "iid", "softmax"), 1)
    values = task.evaluate_clients(x).values
    right = np.concatenate(
        [
            (
                task.network(task.test.take(np.arange(360))[0]).argmax(1) == torch.from_numpy(digits().y_test)
            ).numpy()
        ]
    )
    rates = np.array([right[digits().y_test == c].mean() for c in range(10)])
    for client, part in enumerate(task.parts):
        assert values[client] == pytest.approx(rates[digits().y_train[part]].mean(), abs=1e-12)
    counts = np.bincount(digits().y_test)
    assert (rates * counts).sum() / 360 == pytest.approx(task.evaluate(x)["accuracy"], abs=1e-12)


def test_clients_split_by_nature_are_measured_on_their_own_test_samples():
    task = load("synthetic", 6, seed=1)
    x = task.initial(0)
    values = task.evaluate_clients(x).values
    task.evaluate(x)
    groups = [int(task.data.groups_train[part[0]]) for part in task.parts]
    for client, group in enumerate(groups):
        own = np.flatnonzero(task.data.groups_test == group)
        inputs, targets = task.test.take(own)
        assert values[client] == pytest.approx(
            float((task.network(inputs).argmax(1) == targets).double().mean())
        )


def test_the_spread_names_the_worst_tenth_and_the_quartiles():
    spread = ClientSpread("accuracy", np.arange(1, 21) / 20)
    assert spread.worst_tenth == pytest.approx(0.075)
    assert spread.quartiles == pytest.approx((0.2875, 0.525, 0.7625))
    assert spread.mean == pytest.approx(0.525)
    assert ClientSpread("loss", np.arange(1.0, 21.0), higher_is_better=False).worst_tenth == pytest.approx(
        19.5
    )
    assert list(spread.metrics()) == [
        "accuracy_clients_mean",
        "accuracy_clients_worst10",
        "accuracy_clients_q25",
        "accuracy_clients_median",
        "accuracy_clients_q75",
    ]
