"""What the experiments with server momentum share: the setting of Sun et al., Table 1, and its smaller sibling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.reproduce.cell import NamedTask
from fedpace.reproduce.comparison import training_loss
from fedpace.reproduce.experiment import SettingRow, compared

PAPER = 'Sun, Wu, Huang & Zhang, "On the Role of Server Momentum in Federated Learning", AAAI 2024'
LAST = 6  # evaluations whose mean is a run's accuracy, and its training loss where it has the curve
LATE_LOSS = training_loss(LAST)
LATE_LOSS_NOTE = f"over all clients' data, mean of the last {LAST} evaluations."


class FedGMScale(NamedTuple):
    """One edition's data, network and local work; 100 clients, 5 per round, 3 local epochs in both."""

    data: str
    model: str
    client_lr: float
    batch_size: int
    rounds: int
    evaluate_every: int

    def task(self, alpha: float = 0.5, model: str | None = None) -> NamedTask:
        return NamedTask(self.data, f"dirichlet:{alpha}", model or self.model)

    @property
    def work(self) -> dict[str, Any]:
        """Arguments of every algorithm."""
        return {
            "client_lr": self.client_lr,
            "epochs": 3,
            "batch_size": self.batch_size,
            "clients_per_round": 5,
        }


SCALES: Mapping[str, FedGMScale] = {
    "quick": FedGMScale("fashion-mnist", "mlp:32", 0.05, 50, 100, 5),
    "full": FedGMScale("cifar10", "resnet20_gn", 0.01, 50, 500, 10),
}


def family_rule(method: str, eta: float, momenta: str, work: Mapping[str, Any]) -> Algorithm:
    """FedAvg, FedAvgM or FedGM; `momenta` as a grid names them: " beta 0.7 nu 0.9"."""
    words = momenta.split()
    given = {name: float(value) for name, value in zip(words[::2], words[1::2], strict=True)}
    make: Callable[..., Algorithm] = getattr(algorithms, method.lower())
    return make(server_lr=eta, **given, **work)


def settings(more: str) -> dict[str, tuple[SettingRow, ...]]:
    """What every page of this paper says about its setting, and what one page adds (`compared`)."""
    return {
        edition: compared(
            f"""
            data, network | CIFAR-10; ResNet and VGG of unstated depth | {scale.data}, {scale.model}
            clients | 100, of which 5 in a round; 3 local epochs; uniform weights | the same
            split | Dirichlet 0.5 over labels (also 0.3) | the same
            local SGD | rate 0.01, no momentum; batch size not given
                | rate {scale.client_lr} unless said below, no momentum; batch 50
            rounds | 500 (1000 or 2000 in some figures) | {scale.rounds} unless said below
            """
        )
        + compared(more)
        for edition, scale in SCALES.items()
    }
