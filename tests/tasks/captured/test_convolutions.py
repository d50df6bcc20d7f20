"""Convolutions as matrix products equal torch's direct sums, and the transforms around them are adjoint."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedpace.compute import Request
from fedpace.local import SGD
from fedpace.tasks import from_torch
from fedpace.tasks.captured import Replays, image_loops, trial_of
from fedpace.tasks.captured.convolutions import Kept, convolution_step
from fedpace.tasks.captured.image_loops import G, Images
from fedpace.tasks.captured.record import Call
from fedpace.tasks.images_last import channels_last
from fedpace.vector import Vector

aten = torch.ops.aten
# (inputs, outputs, height, width, kernel, stride, padding): all forms, images that tiles do not fill, every padding
FORMS = [
    (16, 16, 12, 12, 3, 1, 1),
    (16, 32, 9, 14, 3, 1, 0),
    (32, 16, 7, 11, 3, 1, 2),
    (16, 24, 9, 8, 3, 2, 1),
    (32, 16, 8, 8, 4, 2, 0),
    (48, 16, 9, 9, 2, 2, 1),
    (5, 7, 6, 4, 1, 1, 0),
    (16, 32, 9, 8, 1, 2, 0),
]


def drawn(*shape: int) -> Tensor:
    tensor = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))
    return tensor.contiguous(memory_format=torch.channels_last) if len(shape) == 4 else tensor


def near(found: Tensor, exact: Tensor) -> None:
    """Within Winograd's rounding: 1e-5 of the largest value."""
    assert (found - exact).abs().max() <= 1e-5 * exact.abs().max()


def filled(*outputs: Tensor) -> list[Tensor]:
    return [torch.full_like(output, torch.nan, dtype=torch.float32) for output in outputs]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("after_forward", [True, False], ids=["points kept", "points anew"])
def test_convolutions_and_their_gradients_equal_direct_sums_in_double_precision(
    form: tuple[int, ...], with_bias: bool, after_forward: bool
) -> None:
    inputs, outputs, high, wide, size, stride, pad = form
    x, bias = drawn(6, inputs, high, wide), drawn(outputs)
    kernel = drawn(outputs, inputs, size, size).contiguous()
    settings = ([stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1)
    exact = [tensor.double().requires_grad_() for tensor in (x, kernel, bias)]
    result = functional.conv2d(exact[0], exact[1], exact[2] if with_bias else None, stride, pad)
    errors = drawn(*result.shape)
    kept: Kept = {}
    (out,) = filled(result.detach().contiguous(memory_format=torch.channels_last))
    forward = Call(aten.convolution.default, (x, kernel, bias if with_bias else None, *settings), {}, (out,))
    step = convolution_step(forward, kept)
    assert (step is None) == (size > 1 and stride > 1)  # torch's own
    if step is not None and after_forward:
        step()
        near(out, result)
    result.backward(errors.double())
    found = filled(*(tensor.grad for tensor in exact[: 2 + with_bias] if tensor.grad is not None))
    wanted = [True, True, with_bias]
    back = Call(
        aten.convolution_backward.default, (errors, x, kernel, [outputs], *settings, wanted), {}, tuple(found)
    )
    gradients = convolution_step(back, kept)
    assert gradients is not None
    gradients()
    for one, other in zip(found, exact, strict=False):
        near(one, other.grad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [{"groups": 2}, {"dilation": [2, 2]}, {"stride": [1, 2]}, {"pad": [3, 3]}, {"transposed": True}],
    ids=str,
)
def test_other_convolutions_are_left_to_torch(change: dict[str, object]) -> None:
    given = {
        "stride": [1, 1],
        "pad": [1, 1],
        "dilation": [1, 1],
        "transposed": False,
        "out": [0, 0],
        "groups": 1,
    }
    settings = tuple((given | change).values())
    tensors = drawn(6, 16, 12, 12), drawn(16, 16, 3, 3).contiguous(), None
    call = Call(aten.convolution.default, (*tensors, *settings), {}, (drawn(6, 16, 12, 12),))
    assert convolution_step(call, {}) is None


OF = Images(2, 7, 10, 16, 1, 2, 3)
INTO: dict[str, tuple[Callable[..., None], Callable[..., None], int]] = {
    "values": (image_loops.into_points, image_loops.from_errors, 1),
    "errors": (image_loops.into_errors, lambda p, of, y, s: image_loops.from_points(p, of, NONE, y, s), 0),
}
NONE = np.empty(0, np.float32)


@pytest.mark.parametrize("kind", INTO)
def test_transforms_are_adjoint(kind: str) -> None:
    """<T x, p> = <x, T' p>, where every number is a small integer and every sum exact."""
    into, back, pad = INTO[kind]
    of, rng = OF._replace(pad=pad), np.random.default_rng(0)
    image, points = integers(rng, 2 * 7 * 10 * 16), integers(rng, 36 * of.tiles * 16)
    there, returned = np.empty_like(points), np.empty_like(image)
    into(image, of, there, image_loops.scratch())
    back(points, of, returned, image_loops.scratch())
    assert there.astype(np.float64) @ points == image.astype(np.float64) @ returned


def test_patches_are_adjoint() -> None:
    of, rng = Images(2, 7, 10, 16, 1, 4, 5), np.random.default_rng(0)
    image, patches = integers(rng, 2 * 7 * 10 * 16), integers(rng, of.tiles * 9 * 16)
    there, returned = np.empty_like(patches), np.empty_like(image)
    image_loops.into_patches(image, of, 3, 2, there)
    image_loops.from_patches(patches, of, 3, 2, returned)
    assert there.astype(np.float64) @ patches == image.astype(np.float64) @ returned


def integers(rng: np.random.Generator, size: int) -> Vector:
    return rng.integers(-3, 4, size).astype(np.float32)


def test_points_of_kernels_interpolate() -> None:
    """Row k of G has the values of 1, t, t^2 at 0, 1, -1, 2, -2 and infinity, each over the nodes' products."""
    nodes = np.array([0, 1, -1, 2, -2])
    for k, t in enumerate(nodes):
        factor = np.prod([t - other for other in nodes if other != t])
        np.testing.assert_allclose(G[k], t ** np.arange(3) / factor, rtol=1e-15)
    assert G[5].tolist() == [0, 0, 1]


class Twice(nn.Module):
    """One input to two paddings, one kernel on two inputs, and every form."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.same = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.strided, self.point = nn.Conv2d(16, 32, 3, 2, 1, bias=False), nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x).tanh()
        inner = functional.conv2d(y, self.same.weight)
        y = self.same(self.same(y).tanh()) + functional.pad(inner, (1, 1, 1, 1))
        return self.point(self.strided(y).tanh()).mean((2, 3))  # type: ignore[no-any-return]


def test_inputs_and_kernels_with_several_uses_train_as_with_autograd() -> None:
    torch.manual_seed(1)
    data = [(drawn(20, 3, 14, 14), torch.arange(20) % 4)]
    task = from_torch(Twice(), functional.cross_entropy, data, data[0])
    replays = Replays(
        task._flat, task.objective, trial_of(task.client_data(0), channels_last), task.initial(0)
    )
    assert replays.plan(5) is not None, replays.reason
    asked = Request(0, 1, task.initial(0), 0, SGD(0.05, steps=4, batch_size=5), 4, seed=5, data=0)
    found, expected = task.solve(asked), task.reference(asked)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-4 * np.abs(expected).max())
