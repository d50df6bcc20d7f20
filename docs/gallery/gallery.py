"""The pictures of the gallery: every named algorithm on one task, against FedAvg, drawn while the page is built."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from textwrap import wrap
from typing import TYPE_CHECKING

import fedpace
from fedpace import algorithms
from fedpace.cli.settings import build, setting
from fedpace.record.report.plot import COLOURS, STYLE
from fedpace.sim import Population

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedpace import Run

TASK = "--task digits --model {} --clients 20 --partition dirichlet:0.3 --population half-normal:4,1"
ROUNDS = 40
COHORT = "clients_per_round=5"
BUFFER = "buffer=5 concurrency=10"

# What follows --set, word by word. Five updates make a server step wherever there is such a number.
SETTINGS = {
    "fedavg": COHORT,
    "fedsgd": f"{COHORT} client_lr=1.0",
    "fedgm": f"{COHORT} server_lr=3.0",
    "fedavgm": f"{COHORT} server_lr=3.0",
    "fednag": f"{COHORT} server_lr=3.0",
    "multistage_fedgm": f"{COHORT} server_lr=(8,4,2)",
    "autonomous_fedgm": f"{BUFFER} server_lr=3.0",
    "fedadam": COHORT,
    "fedyogi": COHORT,
    "fedadagrad": f"{COHORT} server_lr=0.1",
    "fedams": COHORT,
    "fedprox": f"{COHORT} epochs=10 prox_mu=1.0",
    "fednova": f"{COHORT} epochs=1..10",
    "fednova_vr": f"{COHORT} epochs=5",
    "scaffold": f"{COHORT} epochs=5",
    "feddyn": f"{COHORT} epochs=5",
    "fedper": COHORT,
    "fedbn": COHORT,
    "fedrep": f"{COHORT} head_epochs=2",
    "ditto": COHORT,
    "fedbuff": BUFFER,
    "fedasync": "concurrency=10",
    "ca2fl": BUFFER,
    "mf_ca2fl": f"{BUFFER} cache_bits=4",
    "defedavg_niid": "draws=5",
    "defedavg_iid": "buffer=5",
    "asysg": "buffer=5 server_lr=1.0",
    "favano": "clients_per_round=5 steps=5",
    "quafl": "clients_per_round=5 steps=5",
    "fedcams": COHORT,
    "lag": "client_lr=1.0",
    "fednlaa": COHORT,
    "fedaa": COHORT,
    "fednlaca": COHORT,
    "fedaca": COHORT,
    "fedbnlaca": COHORT,
    "fedbaca": COHORT,
    "two_way": f"{COHORT} server_lr=0.02",
}
# Steps that are cheap in time: as many as take about as long as FedAvg's forty rounds.
STEPS = {
    "fedbuff": 120,
    "autonomous_fedgm": 120,
    "fedasync": 400,
    "ca2fl": 120,
    "mf_ca2fl": 120,
    "defedavg_niid": 90,
    "defedavg_iid": 240,
    "asysg": 240,
    "favano": 140,
    "quafl": 140,
}
LOCAL_WORK = ("epochs", "steps")
OWN_MODELS = ("fedper", "fedbn", "fedrep", "ditto")  # measured client by client, on a network of two layers
PANELS = ("server steps", "virtual seconds", "kB, both directions")


def steps(name: str) -> int:
    return STEPS.get(name, ROUNDS)


def command(name: str) -> str:
    """The line that makes the run of the picture."""
    chosen = " ".join(f"--set '{one}'" if "(" in one else f"--set {one}" for one in SETTINGS[name].split())
    measured = " --client-metrics-every 1" if name in OWN_MODELS else ""
    return f"fedpace run {name} {TASK.format(model(name))} --rounds {steps(name)} {chosen}{measured}"


def model(name: str) -> str:
    return "mlp:32" if name in OWN_MODELS else "softmax"


@cache
def _task(network: str) -> fedpace.tasks.LoadedTask:
    return fedpace.tasks.load("digits", clients=20, partition="dirichlet:0.3", model=network, seed=0)


@cache
def run(name: str, settings: str, network: str) -> Run:
    chosen = dict(setting(one) for one in settings.split())
    algorithm = build(getattr(algorithms, name), chosen, rounds=steps(name))
    every = 1 if network == model(OWN_MODELS[0]) else None
    devices = Population.half_normal(4.0, 1.0)
    return fedpace.simulate(
        algorithm, _task(network), devices, rounds=steps(name), client_metrics_every=every
    )


def control(name: str) -> Run:
    """FedAvg with the same local work."""
    work = (one for one in SETTINGS[name].split() if one.startswith(LOCAL_WORK))
    return run("fedavg", " ".join((COHORT, *work)), model(name))


def accuracies(each: Run) -> list[float]:
    """After every step: of the model, or the mean over clients where each is measured."""
    if each.client_metrics:
        return [each.client_metrics[record.version].mean for record in each.history]
    return [record.metrics["accuracy"] for record in each.history]


def show(name: str) -> Figure:
    """Print the command and how both runs ended; draw the algorithm in blue and the control in grey."""
    print(" \\\n    ".join(wrap(command(name), 76, break_on_hyphens=False)))
    pair = {"fedavg": control(name)} | (
        {} if name == "fedavg" else {name: run(name, SETTINGS[name], model(name))}
    )
    for label, each in pair.items():
        sent = (each.bytes_up + each.bytes_down) / 1e3
        print(
            f"{label:17} accuracy {accuracies(each)[-1]:.3f}   {each.virtual_seconds:6.1f} s   {sent:6.0f} kB"
        )
    return _picture(pair)


def _picture(pair: Mapping[str, Run]) -> Figure:
    from matplotlib import rc_context

    from fedpace.display.figure import DisplayedFigure

    with rc_context({**STYLE, "font.size": 9}):
        figure = DisplayedFigure(figsize=(7.6, 2.1), layout="constrained")
        panels = figure.subplots(1, 3, sharey=True)
        for (label, each), colour in zip(pair.items(), ("#999999", COLOURS[0]), strict=False):
            for panel, values in zip(panels, _abscissae(each), strict=True):
                panel.plot(values, accuracies(each), color=colour, label=label)
        for panel, title in zip(panels, PANELS, strict=True):
            panel.set_xlabel(title)
        panels[0].set(ylabel="accuracy", ylim=(0, 1))
        panels[0].legend(loc="lower right")
    return figure


def _abscissae(each: Run) -> tuple[list[float], list[float], list[float]]:
    """Server steps, virtual seconds and kilobytes, one value per record."""
    sent, total = [], 0.0
    for record in each.history:
        total += (record.bytes_up + record.bytes_down) / 1e3
        sent.append(total)
    return [float(r.version) for r in each.history], [r.virtual_seconds for r in each.history], sent
