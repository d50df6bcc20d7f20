"""One million clients, one thousand of them per round."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from functools import lru_cache

import torch
from torch import nn

import fedpace
from fedpace.bench.contender import peak_bytes
from fedpace.random import stream
from fedpace.tasks.examples import Tensors
from fedpace.tasks.objective import CLASSIFICATION
from fedpace.tasks.torch_task import TorchTask

FEATURES, CLASSES, SAMPLES = 60, 10, 20


@dataclass(frozen=True, slots=True)
class ScaleResult:
    clients: int
    per_round: int
    seconds: float  # per round
    peak_bytes: int


def client_data(client: int) -> Tensors:
    """Made when it is asked for: features around a client's own mean, labels by one model for all."""
    rng = stream(0, "data", client)
    features = rng.normal(rng.normal(), 1.0, (SAMPLES, FEATURES)).astype("float32")
    inputs = torch.from_numpy(features)
    return Tensors(inputs, (inputs @ true_model()).argmax(1))


@lru_cache(maxsize=1)
def true_model() -> torch.Tensor:
    return torch.from_numpy(stream(0, "data").normal(size=(FEATURES, CLASSES)).astype("float32"))


def measure(clients: int = 1_000_000, per_round: int = 1000, rounds: int = 5) -> ScaleResult:
    """In this process: its peak memory counts from its beginning."""
    network = nn.Linear(FEATURES, CLASSES)
    sizes = [SAMPLES] * clients
    task = TorchTask("scale", network, CLASSIFICATION, sizes, client_data, client_data(clients))
    algorithm = fedpace.algorithms.fedavg(client_lr=0.1, epochs=1, batch_size=10, clients_per_round=per_round)
    fedpace.simulate(algorithm, task, rounds=1, evaluate_every=None, traces=False)
    began = time.perf_counter()
    fedpace.simulate(algorithm, task, rounds=rounds, evaluate_every=None, traces=False)
    return ScaleResult(clients, per_round, (time.perf_counter() - began) / rounds, peak_bytes())


if __name__ == "__main__":
    print(json.dumps(asdict(measure())))
