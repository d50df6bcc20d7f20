"""Your own PyTorch model and data in federated training.

    python examples/own_model.py

Twenty clients hold handwritten digits of two classes each; the model is any `nn.Module`. Takes a few seconds.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

import fedpace
from fedpace.tasks.partition import Classes


def data_sets() -> tuple[list[TensorDataset], TensorDataset]:
    """Training data of every client, and test data."""
    pixels, labels = load_digits(return_X_y=True)
    x = torch.tensor(pixels / 16, dtype=torch.float32).view(-1, 1, 8, 8)
    y = torch.tensor(labels)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    train, test = order[:1400], order[1400:]
    parts = Classes(2).split(labels[train], None, 20, rng)
    clients = [TensorDataset(x[train[part]], y[train[part]]) for part in parts]
    return clients, TensorDataset(x[test], y[test])


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)  # the model is small: threads cost more than they gain
    clients, test = data_sets()
    task = fedpace.tasks.from_torch(network(), nn.CrossEntropyLoss(), clients, test)
    algorithm = fedpace.algorithms.fedgm(
        client_lr=0.05, steps=10, batch_size=16, clients_per_round=10, server_lr=2.0, beta=0.8, nu=0.8
    )
    run = fedpace.simulate(algorithm, task, rounds=45, evaluate_every=15)

    print(f"{task.clients} clients, {task.layout.size:,} parameters")
    for record in run.history:
        if record.metrics:
            print(f"step {record.version:3d}   accuracy {record.metrics['accuracy']:.2f}")
    served = task.evaluate_clients(run.model)
    low, median, high = served.quartiles
    print(f"over clients: quartiles {low:.2f} {median:.2f} {high:.2f}, worst tenth {served.worst_tenth:.2f}")


if __name__ == "__main__":
    main()
