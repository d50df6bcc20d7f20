"""GroupNorm as compiled loops equals torch's in double precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedpace.tasks.captured.kernels import own_step
from fedpace.tasks.captured.record import Call

aten = torch.ops.aten
SHAPES = [
    (16, 1, 4, 4),
    (48, 3, 5, 7),
    (6, 2, 3, 2),
    (128, 32, 2, 2),
    (8, 8, 1, 6),
]  # channels, groups, height, width


def step(call: Call) -> None:
    repeated = own_step(call, lambda tensor: False)
    assert repeated is not None
    repeated()


def near(found: Tensor, exact: Tensor) -> None:
    assert (found - exact).abs().max() <= 1e-5 * exact.abs().max()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_group_norm_and_its_gradients(shape: tuple[int, int, int, int]) -> None:
    channels, groups, high, wide = shape
    draws = torch.Generator().manual_seed(channels)
    x, errors = (
        torch.randn(3, channels, high, wide, generator=draws).contiguous(memory_format=torch.channels_last)
        for _ in range(2)
    )
    x += 5  # sums of squares about zero would lose digits
    gain, shift = (torch.randn(channels, generator=draws) for _ in range(2))
    sizes = (3, channels, high * wide, groups)
    exact = aten.native_group_norm(x.double(), gain.double(), shift.double(), *sizes, 1e-5)
    found = tuple(torch.full_like(each, torch.nan, dtype=torch.float32) for each in exact)
    step(Call(aten.native_group_norm.default, (x, gain, shift, *sizes, 1e-5), {}, found))
    wanted = [True] * 3
    expected = aten.native_group_norm_backward(
        errors.double(), x.double(), *exact[1:], gain.double(), *sizes, wanted
    )
    gradients = tuple(torch.full_like(each, torch.nan, dtype=torch.float32) for each in expected)
    arguments = (errors, x, *found[1:], gain, *sizes, wanted)
    step(Call(aten.native_group_norm_backward.default, arguments, {}, gradients))
    for one, other in zip((*found, *gradients), (*exact, *expected), strict=True):
        near(one, other)
