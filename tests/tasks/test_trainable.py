"""Only some parameters are trained and travel: adapters of a model, or its head."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch import nn

from fedpace.compute.protocol import Request
from fedpace.errors import ConfigError
from fedpace.local import SGD
from fedpace.patterns import fits
from fedpace.tasks import OwnTask, from_torch


class Adapted(nn.Module):
    """A linear layer with a low-rank adapter beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(6, 4)
        self.lora_A, self.lora_B = nn.Linear(6, 2, bias=False), nn.Linear(2, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.base(x) + self.lora_B(self.lora_A(x))
        return y


def task(trainable: str | list[str] | None) -> OwnTask:
    torch.manual_seed(1)
    data = (torch.randn(12, 6), torch.arange(12) % 3)
    module = nn.Sequential(Adapted(), nn.Softplus(), nn.Linear(4, 3))
    return from_torch(module, nn.functional.cross_entropy, [data], data, trainable=trainable)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("lora_*", ["0.lora_A.weight", "0.lora_B.weight"]),
        (["lora_B.*", "2.bias"], ["0.lora_B.weight", "2.bias"]),
        ("bias", ["0.base.bias", "2.bias"]),
    ],
)
def test_only_what_fits_travels(pattern: str | list[str], names: list[str]) -> None:
    assert list(task(pattern).layout.names) == names


def test_the_rest_stays_as_it_was() -> None:
    adapted = task("lora_*")
    frozen = adapted.network[0].base.weight.clone()
    local = SGD(0.5, steps=3, batch_size=4)
    request = Request(0, 0, adapted.initial(0), 0, local, 3, seed=0, data=0)
    delta = adapted.solve(request)
    assert delta.size == 2 * 6 + 4 * 2 and np.abs(delta).max() > 0
    assert torch.equal(adapted.network[0].base.weight, frozen)
    again = pickle.loads(pickle.dumps(adapted))
    assert repr(again) == repr(adapted)
    np.testing.assert_array_equal(again.solve(request), delta)


def test_a_pattern_that_fits_nothing_is_a_mistake() -> None:
    with pytest.raises(ConfigError) as error:
        task("adapter_*")
    assert str(error.value) == (
        "trainable must fit the name of a parameter (0.base.weight, 0.base.bias, 0.lora_A.weight, "
        "0.lora_B.weight, 2.weight, ...); got 'adapter_*'"
    )


def test_a_pattern_may_begin_at_any_dot() -> None:
    assert fits("layers.0.lora_A.weight", "lora_*") and fits("head.bias", "head.*")
    assert not fits("layers.0.mylora_A.weight", "lora_*")


def test_pickling_takes_every_parameter_once() -> None:
    whole = task(None)
    assert len(pickle.dumps(whole)) < 12_000
