"""A study of your own: your model, your data, your server optimizer, against known algorithms, with statistics.

    python examples/own_study.py [FOLDER]

Twelve clients record waves of three kinds, mostly of one or two; an LSTM tells them apart. A server optimizer of our
own (Lion, eight lines) goes with rounds and with a buffer, beside FedAvg and FedBuff: four rows, five seeds. The table
goes to the screen, a web page, a picture and a LaTeX table to FOLDER (own-study-output). Takes about 15 seconds.
The runs are saved as own-study/ROW/SEED: interrupted, the same command goes on; finished, it only reads.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import fedpace
from fedpace.algorithms import fedavg, fedbuff

CLIENTS, KINDS, LENGTH = 12, 3, 8


# ------------------------------------------------------------ the task: a function of the seed


class WaveReader(nn.Module):
    """The last state of an LSTM, as scores of the kinds of waves."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 8, batch_first=True)
        self.head = nn.Linear(8, KINDS)

    def forward(self, waves: Tensor) -> Tensor:
        states, _ = self.lstm(waves)
        return self.head(states[:, -1])


def waves(rng: np.random.Generator, kinds: np.ndarray) -> tuple[Tensor, Tensor]:
    """One noisy wave per entry; its kind is its frequency, its phase is random."""
    phase = rng.uniform(0, 2 * np.pi, (len(kinds), 1))
    clean = np.sin(phase + np.arange(LENGTH) * (0.4 + 0.8 * kinds[:, None]))
    noisy = clean + rng.normal(0, 0.2, clean.shape)
    return torch.tensor(noisy[..., None], dtype=torch.float32), torch.tensor(kinds)


def task(seed: int) -> fedpace.tasks.TorchTask:
    """New data, a new split and a new initial model for every seed; all algorithms get the same for the same seed."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet([0.5] * KINDS, size=CLIENTS)
    clients = [waves(rng, rng.choice(KINDS, 40, p=share)) for share in shares]
    test = waves(rng, np.arange(300) % KINDS)
    torch.manual_seed(seed)
    return fedpace.tasks.from_torch(WaveReader(), nn.CrossEntropyLoss(), clients, test)


# ------------------------------------------------------------ the rule: a frozen value, its state apart


@dataclass(frozen=True, slots=True)
class Lion:
    """Steps of one size, in the direction of the sign of a running mean (Chen et al., arXiv:2302.06675)."""

    lr: float = 0.01
    b1: float = 0.9
    b2: float = 0.99

    def init(self, x: np.ndarray) -> np.ndarray:
        return np.zeros_like(x)

    def apply(self, x: np.ndarray, delta: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        step = np.sign(self.b1 * m + (1 - self.b1) * delta)
        return x + self.lr * step, self.b2 * m + (1 - self.b2) * delta


# ------------------------------------------------------------ the study


def algorithms() -> dict[str, fedpace.Algorithm]:
    rounds = fedavg(client_lr=2.0, epochs=1, batch_size=10, clients_per_round=4)
    buffered = fedbuff(client_lr=2.0, epochs=1, batch_size=10, buffer=4, concurrency=8)
    return {
        "FedAvg": rounds,
        "FedBuff": buffered,
        "Lion": replace(rounds, server_opt=Lion(0.08), name="lion"),
        "buffered Lion": replace(buffered, server_opt=Lion(0.08), name="buffered_lion"),
    }


def study(rounds: int = 30, seeds: int = 5, store: str | None = "own-study") -> fedpace.Study:
    devices = fedpace.sim.Population.half_normal(4.0, 1.0)
    return fedpace.compare(
        algorithms(),
        task,
        devices,
        rounds=rounds,
        seeds=seeds,
        target={"accuracy": 0.85},
        workers=2,
        store=store,
    )


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "own-study-output")
    folder.mkdir(parents=True, exist_ok=True)
    found = study()
    print(found.table())
    found.report(folder / "page.html", "An LSTM on waves: FedAvg, FedBuff and Lion")
    found.plot(folder / "curves.png")
    found.to_latex(folder / "table.tex")
    print(f"\nsee {folder}/page.html, curves.png and table.tex")


if __name__ == "__main__":
    main()
