"""FedJAX, jitted, FedAvg: pip install fedjax jax"""

from __future__ import annotations

import sys
import time
from typing import Any

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
import same

WORKLOAD = sys.argv[1]
jax.tree_map = jax.tree_util.tree_map  # a name that FedJAX 0.0.17 uses and JAX has dropped
WIDTHS = {"W1": (784, 10), "W2": (1024, 512, 10), "W3": (784, 200, 10)}
FILTERS = {"W1": (), "W2": ((5, 5, 1, 32), (5, 5, 32, 64)), "W3": ()}


def start() -> list[tuple[Any, Any]]:
    widths = WIDTHS[WORKLOAD]
    shapes = [*FILTERS[WORKLOAD], *zip(widths, widths[1:], strict=False)]
    rng = np.random.default_rng(0)
    return [
        (jnp.asarray(rng.normal(0, np.prod(shape[:-1]) ** -0.5, shape), jnp.float32), jnp.zeros(shape[-1]))
        for shape in shapes
    ]


def convolve(values: Any, weights: Any, bias: Any) -> Any:
    values = jax.lax.conv_general_dilated(
        values, weights, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    pooled = jax.lax.reduce_window(values + bias, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jax.nn.relu(pooled)


def loss(params: Any, batch: Any) -> Any:
    values, filters = batch["x"], len(FILTERS[WORKLOAD])
    for weights, bias in params[:filters]:
        values = convolve(values, weights, bias)
    values = values.reshape(len(values), -1)
    for weights, bias in params[filters:-1]:
        values = jax.nn.relu(values @ weights + bias)
    weights, bias = params[-1]
    scores = jax.nn.log_softmax(values @ weights + bias)
    return -jnp.take_along_axis(scores, batch["y"][:, None], 1).mean()


def gradient(params: Any, batch: Any, rng: Any) -> Any:
    return jax.grad(loss)(params, batch)


def client(number: int) -> Any:
    images, labels = same.data(WORKLOAD, number)
    return fedjax.ClientDataset({"x": images.reshape(len(labels), 28, 28, 1), "y": labels.astype(np.int32)})


work = fedjax.ShuffleRepeatBatchHParams(
    batch_size=same.BATCH, num_steps=same.STEPS[WORKLOAD], num_epochs=None, seed=0
)
algorithm = fedjax.algorithms.fed_avg.federated_averaging(
    gradient, fedjax.optimizers.sgd(same.LR), fedjax.optimizers.sgd(1.0), work
)
STATE = [algorithm.init(start())]


def seconds(rounds: int) -> float:
    rng = np.random.default_rng(rounds)
    began = time.perf_counter()
    for _ in range(rounds):
        chosen = rng.choice(same.CLIENTS[WORKLOAD], same.PER_ROUND, replace=False)
        keys = jax.random.split(jax.random.PRNGKey(0), same.PER_ROUND)
        members = [(int(k), client(int(k)), key) for k, key in zip(chosen, keys, strict=True)]
        STATE[0], _ = algorithm.apply(STATE[0], members)
        jax.block_until_ready(STATE[0].params)
    return time.perf_counter() - began


if __name__ == "__main__":
    same.serve(lambda: seconds)
