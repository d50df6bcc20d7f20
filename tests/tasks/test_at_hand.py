"""The real data sets, where they are at hand: in FEDPACE_DATA, or in a folder shared/data beside the checkout."""

import os
from pathlib import Path

import numpy as np
import pytest

from fedpace.tasks import load
from fedpace.tasks.datasets import store
from fedpace.tasks.datasets.find import import_data, opened
from fedpace.tasks.datasets.shakespeare import ALPHABET

GIVEN = os.environ.get("FEDPACE_DATA")
BESIDE = Path(__file__).parents[3] / "shared" / "data"
FILES = {
    "mnist": "mnist.npz",
    "fashion-mnist": "fashion_mnist.npz",
    "cifar10": "cifar10.npz",
    "cifar100": "cifar100.npz",
    "shakespeare": "tinyshakespeare.txt.xz",
}


@pytest.fixture(scope="session")
def imported(tmp_path_factory):
    """A cache for the files beside the checkout, so that the user's own is left alone."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def at_hand(imported, monkeypatch):
    def find(name):
        if GIVEN and (Path(GIVEN) / name / store.MANIFEST).is_file():
            monkeypatch.setenv("FEDPACE_DATA", GIVEN)
            return opened(name)
        monkeypatch.setenv("FEDPACE_DATA", str(imported))
        if store.stored(name):
            return opened(name)
        if not (BESIDE / FILES[name]).is_file():
            pytest.skip(
                f"{name} is neither in FEDPACE_DATA nor as shared/data/{FILES[name]} beside the checkout"
            )
        return import_data(name, BESIDE / FILES[name])

    return find


def assert_apart(data):
    seen = {sample.tobytes() for sample in data.x_train}
    assert not any(sample.tobytes() in seen for sample in data.x_test)


@pytest.mark.parametrize(
    ("name", "shape", "train", "test"),
    [
        (
            "mnist",
            (28, 28),
            [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
            [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
        ),
        ("fashion-mnist", (28, 28), [6000] * 10, [1000] * 10),
        ("cifar10", (32, 32, 3), [5000] * 10, [1000] * 10),
        ("cifar100", (32, 32, 3), [500] * 100, [100] * 100),
    ],
)
def test_images(at_hand, name, shape, train, test):
    """Importing has compared the content with the published checksums; counts as published, nothing in both."""
    data = at_hand(name)
    store.check(name)
    assert data.x_train.shape == (sum(train), *shape) and data.x_test.shape == (sum(test), *shape)
    assert np.bincount(data.y_train).tolist() == train
    assert np.bincount(data.y_test).tolist() == test
    assert_apart(data)


def test_shakespeare(at_hand):
    data = at_hand("shakespeare")
    assert data.x_train.shape == (10079, 80) and data.x_test.shape == (2441, 80)
    assert data.groups_train.max() + 1 == len(np.unique(data.groups_test)) == 232
    assert_apart(data)
    # each label is the character after the one above it
    np.testing.assert_array_equal(data.x_train[:, 1:], data.y_train[:, :-1])
    first = "".join(ALPHABET[code] for code in data.x_train[0])
    assert first == "Before we proceed any further, hear me speak.\nYou are all resolved rather to die"


def test_a_role_is_tested_on_what_it_says_last(at_hand):
    data = at_hand("shakespeare")
    trained, tested = np.bincount(data.groups_train), np.bincount(data.groups_test)
    np.testing.assert_array_equal(tested, np.maximum(1, (trained + tested) // 5))


@pytest.mark.parametrize(
    ("name", "model", "parameters"),
    [
        ("fashion-mnist", "cnn", 582_026),
        ("cifar10", "cnn", 878_538),
        ("mnist", "mlp", 159_010),
        ("shakespeare", "gru", 72_673),
    ],
)
def test_tasks_on_them(at_hand, name, model, parameters):
    at_hand(name)
    task = load(name, 100, "natural" if name == "shakespeare" else "dirichlet:0.3", model)
    assert task.layout.size == parameters
    groups = task.data.groups_train
    used = len(task.data.y_train) if groups is None else np.sort(np.bincount(groups))[-100:].sum()
    assert sum(task.sizes) == used
    inputs, targets = task.client_data(3).take(np.arange(2))
    assert task.network(inputs).shape[:2] == (2, task.data.classes) and len(targets) == 2


def test_pixels_are_standardised(at_hand):
    for name in ("mnist", "fashion-mnist"):
        at_hand(name)
        pixels = load(name, 1, model="softmax").client_data(0).inputs
        assert abs(float(pixels.mean())) < 0.01 and abs(float(pixels.std()) - 1) < 0.01
