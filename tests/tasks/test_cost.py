"""Multiply-accumulates by hand, and by the counter."""

import numpy as np
import pytest
import torch
from torch import nn

import fedpace
from fedpace.tasks import networks
from fedpace.tasks.cost import multiply_accumulates


def counted(module, *shape):
    return multiply_accumulates(lambda: module.eval()(torch.zeros(1, *shape)))


@pytest.mark.parametrize(
    ("module", "shape", "expected"),
    [
        (nn.Linear(3, 4), (3,), 3 * 4),
        (nn.Linear(3, 4), (7, 3), 7 * 3 * 4),
        (nn.Conv1d(3, 4, 3), (3, 10), 8 * 4 * 3 * 3),
        (nn.Conv2d(4, 6, 5, groups=2), (4, 8, 8), 4 * 4 * 6 * 2 * 25),
        (nn.ConvTranspose2d(3, 2, 2, stride=2), (3, 5, 5), 5 * 5 * 3 * 2 * 4),
        (nn.LSTM(8, 16, batch_first=True), (5, 8), 5 * 4 * 16 * (8 + 16)),
        (nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True), (5, 8), 2 * 5 * 64 * (8 + 16 + 32 + 16)),
        (nn.GRU(8, 16, batch_first=True), (5, 8), 5 * 3 * 16 * (8 + 16)),
        (
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
            (5, 16),
            4 * 5 * 16 * 16 + 2 * 5 * 5 * 16 + 2 * 5 * 16 * 32,
        ),
        (nn.ReLU(), (9,), 0),
    ],
)
def test_layers(module, shape, expected):
    assert counted(module, *shape) == expected


@pytest.mark.parametrize(("shape", "expected"), [((1, 28, 28), 4_267_008), ((3, 32, 32), 7_825_920)])
def test_the_network_that_device_presets_refer_to(shape, expected):
    assert counted(networks.build("cnn", networks.IMAGES, shape, 10, 0), *shape) == expected


def test_tasks_tell_what_their_model_costs():
    assert fedpace.tasks.load("digits", clients=4).multiply_accumulates == 64 * 32 + 32 * 10
    x, y = torch.zeros(6, 5, 3), torch.zeros(6, 1)
    module = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(15), nn.Linear(15, 1))
    task = fedpace.tasks.from_torch(module, nn.MSELoss(), [(x, y)], (x, y))
    before = task.evaluate(task.initial(0))
    assert task.multiply_accumulates == 15
    assert task.evaluate(task.initial(0)) == before
    np.testing.assert_array_equal(task.initial(0), task.initial(0))
