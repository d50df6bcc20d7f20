"""synthetic(alpha, beta): devices that differ in their model and in their data, to a chosen degree."""

from __future__ import annotations

import numpy as np

from fedpace.errors import ConfigError, require_count, require_number
from fedpace.random import stream
from fedpace.tasks.datasets.data import Array, Data
from fedpace.untrusted import brief

FEATURES, CLASSES = 60, 10
MAX_DEVICES = 100_000  # 15 GB of samples


def synthetic(alpha: float, beta: float, devices: int, seed: int) -> Data:
    """Li et al., "Federated Optimization in Heterogeneous Networks", arXiv:1812.06127, section 5.1:

        y = argmax softmax(W_k x + b_k),  x in R^60, 10 classes
        W_k, b_k ~ N(u_k, 1),  u_k ~ N(0, alpha)             how much the devices' models differ
        x ~ N(v_k, diag(j^-1.2)),  v_k ~ N(B_k, 1),  B_k ~ N(0, beta)    how much their data does

    with 50 + lognormal(4, 2) samples per device, a tenth of them for testing.
    Departures: as in the authors' code alpha and beta are standard deviations, which the paper's N(0, alpha)
    leaves open; each device draws from a stream of its own.
    """
    require_number(alpha, "synthetic alpha", low=0, allowed=">= 0")
    require_number(beta, "synthetic beta", low=0, allowed=">= 0")
    require_count(devices, "devices of synthetic", high=MAX_DEVICES)
    made = [_device(alpha, beta, stream(seed, "data", device)) for device in range(devices)]
    tests = [len(y) // 10 for _, y in made]
    sizes = [len(y) - n for (_, y), n in zip(made, tests, strict=True)]
    return Data(
        f"synthetic:{alpha:g},{beta:g}",
        np.concatenate([x[:n] for (x, _), n in zip(made, sizes, strict=True)]),
        np.concatenate([y[:n] for (_, y), n in zip(made, sizes, strict=True)]),
        np.concatenate([x[n:] for (x, _), n in zip(made, sizes, strict=True)]),
        np.concatenate([y[n:] for (_, y), n in zip(made, sizes, strict=True)]),
        CLASSES,
        np.repeat(np.arange(devices), sizes),
        np.repeat(np.arange(devices), tests),
    )


def _device(alpha: float, beta: float, rng: np.random.Generator) -> tuple[Array, Array]:
    u, center = rng.normal(0, alpha), rng.normal(0, beta)
    weights, bias = rng.normal(u, 1, (FEATURES, CLASSES)), rng.normal(u, 1, CLASSES)
    v = rng.normal(center, 1, FEATURES)
    size = 50 + int(rng.lognormal(4, 2))
    deviations = np.arange(1, FEATURES + 1) ** -0.6
    x = v + deviations * rng.normal(size=(size, FEATURES))
    return x.astype(np.float32), (x @ weights + bias).argmax(axis=1).astype(np.uint8)


def parameters(name: str) -> tuple[float, float]:
    """(alpha, beta) of `synthetic` (1, 1) or `synthetic:0.5,0.5`."""
    _, _, rest = name.partition(":")
    try:
        alpha, beta = (float(word) for word in (rest or "1,1").split(","))
    except ValueError:
        raise ConfigError(f"task must look like synthetic:ALPHA,BETA; got {brief(name)}") from None
    return alpha, beta
