"""Microseconds of convolutions and GroupNorm by torch and as replayed steps: best of 200."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from fedpace.compute.memory import keep_freed
from fedpace.tasks.captured.operations import into
from fedpace.tasks.captured.record import Call

aten = torch.ops.aten
TURNS, BATCH = 200, 10
# (inputs, outputs, pixels along a side, kernel, stride)
CONVOLUTIONS = [
    (16, 16, 32, 3, 1),
    (32, 32, 16, 3, 1),
    (64, 64, 8, 3, 1),
    (16, 32, 32, 3, 2),
    (32, 64, 16, 1, 2),
]
NORMS = [(16, 32, 1), (32, 16, 2), (64, 8, 4)]  # channels, pixels along a side, groups


def best_us(step: Callable[[], object]) -> float:
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return 1e6 * min(times)


def images(channels: int, side: int) -> Tensor:
    return torch.randn(BATCH, channels, side, side).contiguous(memory_format=torch.channels_last)


def measured(name: str, operation: Callable[..., object], *args: object) -> None:
    """Torch's operation, and the step that a replay has for it; none: torch's own is repeated."""
    outputs = tuple(t for t in _all(operation(*args)) if t is not None)
    step = into(Call(operation, args, {}, outputs), lambda tensor: False, {})  # type: ignore[arg-type]
    ours = "torch's own" if step is None else f"{best_us(step):.0f}"
    print(f"{name:44} torch {best_us(lambda: operation(*args)):6.0f}   replayed {ours:>6}")


def _all(result: object) -> tuple[Tensor | None, ...]:
    return (result,) if isinstance(result, Tensor) else result  # type: ignore[return-value]


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    keep_freed()
    for inputs, outputs, side, size, stride in CONVOLUTIONS:
        x, kernel = images(inputs, side), torch.randn(outputs, inputs, size, size)
        settings = ([stride] * 2, [size // 2] * 2, [1, 1], False, [0, 0], 1)
        name = f"{size}x{size}, stride {stride}, {inputs} to {outputs} channels, {side}x{side}"
        measured(name, aten.convolution.default, x, kernel, None, *settings)
        errors, wanted = images(outputs, side // stride), [True, True, False]
        measured(
            "    its gradients", aten.convolution_backward.default, errors, x, kernel, None, *settings, wanted
        )
    for channels, side, groups in NORMS:
        x, gain, shift = images(channels, side), torch.ones(channels), torch.zeros(channels)
        sizes = (BATCH, channels, side * side, groups)
        measured(
            f"GroupNorm, {channels} channels, {side}x{side}",
            aten.native_group_norm.default,
            x,
            gain,
            shift,
            *sizes,
            1e-5,
        )
        _, mean, steep = aten.native_group_norm(x, gain, shift, *sizes, 1e-5)
        back = aten.native_group_norm_backward.default
        measured("    its gradients", back, images(channels, side), x, mean, steep, gain, *sizes, [True] * 3)


if __name__ == "__main__":
    main()
