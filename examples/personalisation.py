"""Clients that hold few classes: one model for all, and models of their own.

python examples/personalisation.py [picture.png]
"""

import sys

import fedpace
from fedpace import algorithms

STEPS = 15
task = fedpace.tasks.load("digits", clients=20, partition="shards:2", model="mlp:32", seed=0)
work = {"clients_per_round": 10, "epochs": 1, "client_lr": 0.1}

STUDY = {  # algorithm, and local steps that every client takes before it is measured
    "FedAvg": (algorithms.fedavg(**work), None),
    "FedAvg, then 5 steps": (algorithms.fedavg(**work), 5),
    "FedPer": (algorithms.fedper(**work), None),
    "FedRep": (algorithms.fedrep(head_epochs=2, **work), None),
    "Ditto": (algorithms.ditto(lam=0.1, **work), None),
}


def main(picture: str | None = None) -> None:
    print(f"accuracy of a client   {'mean':>6}{'median':>8}{'worst tenth':>13}{'megabytes':>11}")
    found = {}
    for name, (algorithm, own_steps) in STUDY.items():
        run = fedpace.simulate(
            algorithm,
            task,
            rounds=STEPS,
            evaluate_every=None,
            client_metrics_every=STEPS,
            personalise=own_steps,
        )
        spread = found[name] = run.client_metrics[STEPS]
        sent = (run.final["bytes_up"] + run.final["bytes_down"]) / 1e6
        row = f"{spread.mean:>6.3f}{spread.quartiles[1]:>8.3f}{spread.worst_tenth:>13.3f}{sent:>11.2f}"
        print(f"{name:23}{row}")
    if picture is not None:
        draw(found, picture)


def draw(found: dict[str, fedpace.client_spread.ClientSpread], picture: str) -> None:
    """The share of clients up to each accuracy, one line per algorithm."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, spread in found.items():
        axes.ecdf(spread.values, label=name)
    axes.set_xlabel("accuracy of a client on data like its own")
    axes.set_ylabel("share of clients")
    axes.legend()
    figure.savefig(picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
