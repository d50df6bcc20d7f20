"""Objective inconsistency: the limits of FedAvg, FedProx and FedNova under unequal local work.

Twenty clients hold unequal shares of the digits and make 1 to 6 passes over them per round. Softmax regression
with weight decay has one optimum, which gradient descent on the pooled data finds; the distance of each algorithm's
limit from it is the bias of its averaging.

    python examples/unequal_work.py [PLOT.png]
"""

import sys
from dataclasses import replace

import numpy as np

import fedpace
from fedpace import algorithms
from fedpace.local import SGD
from fedpace.random import stream
from fedpace.server_opt import Momentum
from fedpace.theory import Work

DECAY, BATCH, ROUNDS, TAIL = 0.02, 10, 240, 60
task = fedpace.tasks.load("digits", clients=20, partition="dirichlet:0.3", model="softmax", seed=1)
sizes = [task.samples(client) for client in range(task.clients)]
epochs = stream(1, "work").integers(1, 6, size=task.clients, endpoint=True)
steps = [int(e * np.ceil(n / BATCH)) for e, n in zip(epochs, sizes, strict=True)]


def pooled_optimum() -> np.ndarray:
    """One full-batch step per client, weighted by samples, is gradient descent on the pooled data."""
    descent = replace(
        algorithms.fedsgd(weighting="samples"),
        local=SGD(0.2, steps=1, weight_decay=DECAY),
        server_opt=Momentum(lr=10.0, beta=0.9, nu=1.0),
    )
    return fedpace.simulate(descent, task, rounds=600, evaluate_every=None).model


def limit(algorithm: fedpace.Algorithm) -> np.ndarray:
    """The mean of the last models, which averages out the noise of the batches."""
    algorithm = replace(algorithm, local=replace(algorithm.local, weight_decay=DECAY))
    run = fedpace.simulate(algorithm, task, rounds=ROUNDS, evaluate_every=None, keep_models=True)
    return np.mean(run.models[-TAIL:], axis=0)


def main() -> None:
    work = Work.of(SGD(0.02, steps=1), steps, sizes)
    print(f"local steps per round: {min(steps)} to {max(steps)}")
    print(f"objective inconsistency: {work.misplaced:.0%} of the weight is misplaced (chi2 {work.chi2:.2f})")
    optimum = pooled_optimum()
    contestants = {
        "FedAvg": algorithms.fedavg(client_lr=0.02, steps=steps, batch_size=BATCH, weighting="samples"),
        "FedProx": algorithms.fedprox(client_lr=0.02, steps=steps, batch_size=BATCH, prox_mu=1.0),
        "FedNova": algorithms.fednova(client_lr=0.02, steps=steps, batch_size=BATCH),
    }
    size = np.linalg.norm(optimum)
    distances = {name: float(np.linalg.norm(limit(a) - optimum) / size) for name, a in contestants.items()}
    for name, distance in distances.items():
        print(f"{name:8s} ends {distance:.2f} of the optimum's length away from it")
    print(f"nearest: {min(distances, key=distances.__getitem__)}")
    if len(sys.argv) > 1:
        draw(distances, work, sys.argv[1])


def draw(distances: dict[str, float], work: Work, path: str) -> None:
    """Left, the weights of the objective that is optimised; right, the distance of its limit from the optimum."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    shares, limits = figure.subplots(1, 2, width_ratios=(2, 1))
    order = np.argsort(-work.p)
    at = np.arange(work.clients)
    shares.bar(at - 0.2, work.p[order], 0.4, label="share of the samples (FedNova)", color="#0072B2")
    shares.bar(at + 0.2, work.w[order], 0.4, label="weight under plain averaging", color="#D55E00")
    shares.set(xlabel="client, largest first", ylabel="weight of its objective", xticks=[])
    shares.legend(frameon=False)
    limits.bar(list(distances), list(distances.values()), color=["#D55E00", "#E69F00", "#0072B2"])
    limits.set_ylabel("distance of the limit from the optimum, relative")
    for axes in (shares, limits):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
