"""Relative squared error of codecs on client updates, and frame lengths: python benchmarks/codec_errors.py

Mean over the updates of all 20 clients, computed from the model after ten rounds of FedAvg: MLP 784-64-10 on
Fashion-MNIST, 10 clients per round, 20 local steps of 32 samples at a learning rate of 0.05, seed 0. Codecs per tensor.
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

import numpy as np

import fedpace
from fedpace.link import Codec, Dense, EntropyCoded, Octaves, TopK
from fedpace.pace import Scripted
from fedpace.vector import Vector

CLIENTS = 20
WORK: dict[str, Any] = {"client_lr": 0.05, "steps": 20, "batch_size": 32}
CODECS: dict[str, Codec] = {
    "top-k 1/24": TopK(1 / 24),
    "top-k 1/13 in fp16": TopK(1 / 13, values="fp16"),
    "octaves 1/4": Octaves(1 / 4),
    "ternary 1/4": Octaves(1 / 4, levels=1),
    "octaves 1/8": Octaves(1 / 8),
    "entropy 1.59": EntropyCoded(1.59, dither=False),
    "dithered 1.59": EntropyCoded(1.59),
    "entropy 0.8": EntropyCoded(0.8, dither=False),
}


def updates(task: fedpace.tasks.TorchTask) -> list[Vector]:
    """The displacement of every client from the model after ten rounds."""
    fedavg = fedpace.algorithms.fedavg
    start = fedpace.simulate(fedavg(**WORK, clients_per_round=10), task, rounds=10, evaluate_every=None)
    found: list[Vector] = []
    for client in range(task.clients):
        alone = fedavg(**WORK, clients_per_round=1, select=Scripted([[client]]))
        after = fedpace.simulate(alone, task, rounds=1, initial=start, evaluate_every=None)
        found.append(after.model - start.model)
    return found


def measure(codec: Codec, v: Vector) -> tuple[float, float]:
    """(length of a dense frame over that of the codec's, ||C(v) - v||^2 / ||v||^2)."""
    rng = np.random.default_rng(0)
    frame = codec.encode(v, rng)
    error = codec.decode(frame, v.size) - v
    return len(Dense().encode(v, rng)) / len(frame), float(error @ error) / float(v @ v)


def main() -> None:
    for split in ("iid", "shards:2"):
        task = fedpace.tasks.load("fashion-mnist", clients=CLIENTS, partition=split, model="mlp:64")
        sent = updates(task)
        for name, codec in CODECS.items():
            shorter, errors = zip(*(measure(codec.bind(task.layout), v) for v in sent), strict=True)
            print(f"{split:<10}{name:<20}{fmean(shorter):5.1f} times fewer bytes {fmean(errors):6.1%} error")


if __name__ == "__main__":
    main()
