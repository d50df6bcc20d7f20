"""Replayed steps equal those of autograd, and modules that cannot be replayed are found out."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedpace.compute import Request
from fedpace.local import SGD
from fedpace.tasks import OwnTask, from_torch
from fedpace.tasks.networks.resnet import ResNet, group_norm
from fedpace.tasks.networks.text import CharGRU, transformer

CLASSES, SAMPLES, BATCH = 4, 23, 5
Make = Callable[[], nn.Module]
IMAGES, TEXT, VECTORS = "images", "text", "vectors"


class Own(nn.Module):
    """A linear layer inside whatever a test makes of its output."""

    def __init__(self, after: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.outer, self.after = nn.Linear(12, 9), nn.Linear(9, CLASSES), after
        self.calls, self.seen = 0, [0]
        self.register_buffer("table", torch.linspace(-1, 1, 9))

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.after(self, self.inner(x)))  # type: ignore[no-any-return]


def shared(module: nn.Module, x: Tensor) -> Tensor:
    """The same weights twice, and a product of parameters."""
    again = x @ module.inner.weight[:, :9].t()  # type: ignore[index, operator]
    return again.tanh() + x * module.inner.bias  # type: ignore[operator]


def written(module: nn.Module, x: Tensor) -> Tensor:
    """Into new memory, part by part."""
    out = torch.zeros_like(x)
    out[:, :4] = x[:, :4].exp()
    out[:, 4:] += x[:, 4:] * module.table[4:]  # type: ignore[index]
    return out


def of_constants(module: nn.Module, x: Tensor) -> Tensor:
    mask = torch.ones(9, 9).tril().masked_fill(torch.eye(9) > 0, 0.5)
    return x @ mask.to(x.dtype) + torch.arange(9.0)[None].to(x.dtype)


def attention(module: nn.Module, x: Tensor) -> Tensor:
    q, k, v = (x[:, None, :, None] * factor for factor in (1.0, 0.5, 2.0))
    return functional.scaled_dot_product_attention(q, k, v)[:, 0, :, 0]


FIT: dict[str, tuple[Make, str]] = {
    "transformer": (lambda: transformer((7,), CLASSES, 8), TEXT),
    "gru": (lambda: CharGRU(CLASSES, 3, 4), TEXT),
    "resnet": (lambda: ResNet((3, 8, 8), CLASSES, (16, 32), 1, group_norm, projected=True), IMAGES),
    "batch norm": (lambda: ResNet((3, 8, 8), CLASSES, (4, 8), 1, nn.BatchNorm2d, projected=False), IMAGES),
    "dropout": (lambda: Own(lambda module, x: functional.dropout(x.sin(), 0.3, module.training)), VECTORS),
    "shared": (lambda: Own(shared), VECTORS),
    "written": (lambda: Own(written), VECTORS),
    "constants": (lambda: Own(of_constants), VECTORS),
    "attention": (lambda: Own(attention), VECTORS),
    "unused": (lambda: Own(lambda module, x: x.detach().relu()), VECTORS),
}


def samples(kind: str, dtype: torch.dtype, seed: int) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(seed)
    if kind == TEXT:
        codes = torch.randint(0, CLASSES, (SAMPLES, 8), generator=draws)
        return codes[:, :-1].contiguous(), codes[:, 1:].contiguous()
    shape = (3, 8, 8) if kind == IMAGES else (12,)
    return torch.randn(SAMPLES, *shape, generator=draws).to(dtype), torch.arange(SAMPLES) % CLASSES


def task_of(make: Make, kind: str = VECTORS, dtype: torch.dtype = torch.float32) -> OwnTask:
    torch.manual_seed(3)
    data = [samples(kind, dtype, seed) for seed in range(3)]
    return from_torch(make().to(dtype), functional.cross_entropy, data, data[0])


def asked(task: OwnTask, client: int = 1, steps: int = 12, **rule: Any) -> Request:
    local = SGD(0.05, steps=steps, batch_size=BATCH, **rule)
    return Request(client, 7, task.initial(0), 0, local, steps, seed=5, data=client)


@pytest.mark.parametrize("kind", FIT)
@pytest.mark.parametrize(
    ("dtype", "near"), [(torch.float64, 1e-11), (torch.float32, 2e-4)], ids=["double", "single"]
)
@pytest.mark.parametrize("rule", [{}, {"momentum": 0.9, "prox_mu": 0.1, "weight_decay": 0.01}], ids=str)
def test_replayed_steps_equal_those_of_autograd(
    kind: str, dtype: torch.dtype, near: float, rule: dict[str, float]
) -> None:
    """Partial batches are among them: 23 samples in fives, for more than two passes."""
    task = task_of(*FIT[kind], dtype)
    assert task.solving == "replayed steps"
    found, expected = task.solve(asked(task, **rule)), task.reference(asked(task, **rule))
    np.testing.assert_allclose(found, expected, rtol=0, atol=near * np.abs(expected).max())


@pytest.mark.parametrize("kind", FIT)
def test_a_session_does_not_depend_on_those_before_it(kind: str) -> None:
    make, data = FIT[kind]
    task, other = task_of(make, data), task_of(make, data)
    for client in (0, 2, 1):
        last = task.solve(asked(task, client))
    assert np.array_equal(last, other.solve(asked(other, 1)))


def test_stopped_between_steps_is_as_many_steps() -> None:
    task = task_of(*FIT["transformer"])
    left = iter([False] * 4 + [True])
    delta, taken = task.train_until(asked(task), lambda: next(left))
    assert taken == 4
    assert np.array_equal(delta, task.solve(asked(task, steps=4)))


def counted(module: nn.Module, x: Tensor) -> Tensor:
    module.calls += 1  # type: ignore[operator]
    return x


def listed(module: nn.Module, x: Tensor) -> Tensor:
    module.seen[0] += 1  # type: ignore[index, operator]
    return x


def decided(module: nn.Module, x: Tensor) -> Tensor:
    return x if float(x.detach().sum()) > 0 else -x


def chosen(module: nn.Module, x: Tensor) -> Tensor:
    return x[x.detach().abs().sum(1) >= 0]


def drawn(module: nn.Module, x: Tensor) -> Tensor:
    return x * random.random()


def through_numpy(module: nn.Module, x: Tensor) -> Tensor:
    return x * torch.from_numpy(np.sign(x.detach().numpy()))


UNFIT = {
    "counts its calls": (counted, "changes attributes"),
    "keeps a list": (listed, "changes attributes"),
    "decides by a value": (decided, "decides by what the data is"),
    "selects by values": (chosen, "decides by what the data is"),
    "draws with Python": (drawn, "changes attributes"),
    "computes with numpy": (through_numpy, "two batches take different ways"),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_what_cannot_be_repeated_is_left_to_autograd(kind: str) -> None:
    after, reason = UNFIT[kind]
    task = task_of(lambda: Own(after))
    assert task.solving == "autograd steps"
    assert task._autograd._replays is not None
    assert reason in task._autograd._replays.reason
    if kind != "draws with Python":
        assert np.array_equal(task.solve(asked(task)), task.reference(asked(task)))


CALLS = 0


class Globally(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        global CALLS
        CALLS += 1
        return super().forward(x)


def test_hooks_and_global_variables_are_left_to_autograd() -> None:
    def hooked() -> nn.Module:
        module = Own(lambda module, x: x.sin())
        module.inner.register_forward_hook(lambda *_: None)
        return module

    assert task_of(hooked).solving == "autograd steps"
    assert task_of(lambda: Globally(12, CLASSES)).solving == "autograd steps"


def test_labels_out_of_range_are_an_error_as_with_autograd() -> None:
    task = task_of(*FIT["transformer"])
    task.client_data(2).inputs[0, 0] = CLASSES  # type: ignore[attr-defined]
    with pytest.raises(IndexError):
        task.solve(asked(task, 2))
