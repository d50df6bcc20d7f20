"""What the DeFedAvg experiments share: the paper's time model, its published seconds and learning rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.reproduce.cell import NamedTask
from fedpace.reproduce.experiment import SettingRow, compared
from fedpace.sim import Population
from fedpace.sim.distributions import Between

PAPER = (
    'Wang, Li, Jin & Zhang, "Achieving Linear Speedup in Asynchronous Federated Learning with Heterogeneous Clients", '
    "IEEE TMC 2025"
)

Pair = tuple[float | None, float | None]  # server rate, local rate

N = (10, 20, 40, 80)
CENSORED = 880.0  # printed as "> 880"

# Table 1, Fashion-MNIST: seconds to 90 % (iid) and 80 % (two classes per client), for n = 10, 20, 40, 80
SECONDS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "iid": {
        "FedAvg": (51.89, 179.1, 184.9, 179.83),
        "FAVANO": (424.25, 448.89, 556.25, CENSORED),
        "AsySG": (335.16, 297.57, 231.22, 215.38),
        "DeFedAvg": (26.39, 49.26, 94.49, 99.72),
    },
    "noniid": {
        "FedAvg": (437.57, 447.81, 211.67, 443.56),
        "FAVANO": (417.21, 382.01, 441.85, CENSORED),
        "FedBuff": (198.54, 218.26, 604.93, 422.88),
        "DeFedAvg": (103.25, 144.49, 196.98, 236.3),
    },
}
# Table 2, Fashion-MNIST: (server rate, local rate); None where the method has none
RATES: Mapping[str, Mapping[str, tuple[Pair, ...]]] = {
    "iid": {
        "FedAvg": ((1.0, 0.1), (1.0, 0.01), (1.0, 0.01), (1.0, 0.01)),
        "FAVANO": ((None, 0.1),) * 4,
        "AsySG": ((0.1, None),) * 4,
        "DeFedAvg": ((0.1, 0.05), (0.1, 0.05), (0.1, 0.05), (1.0, 0.1)),
    },
    "noniid": {
        "FedAvg": ((0.1, 0.05), (0.1, 0.05), (1.0, 0.01), (0.1, 0.1)),
        "FAVANO": ((None, 0.05),) * 4,
        "FedBuff": ((0.1, 0.005), (0.1, 0.01), (0.1, 0.01), (0.1, 0.05)),
        "DeFedAvg": ((0.1, 0.05),) * 4,
    },
}
TRIED = """
## What came out

With transfers that overlap with training DeFedAvg is the fastest iid at n = 10, 20 and 40. At n = 80 the rates with
which it was fastest on the seeds for tuning, 1 and 0.1, the paper's own, are at the limit: three of ten seeds never
reach the target and end at 46 to 60 %, and runs are stopped where they touch it; on
[defedavg-speedup](../defedavg-speedup/README.md) runs at these rates fall apart afterwards. The claim stays undecided
for that.

On the two-class split DeFedAvg-nIID waits for the slowest of the clients it drew, and softmax regression gains little
from its unbiasedness: speed and classes are drawn independently here. FedBuff with all clients active hears everybody
and is faster. Energy saving trains a quarter to two thirds as often and takes 1.1 to 1.6 times as long. FAVANO's best
local rate lies at the end of its grid after three extensions. Iid DeFedAvg's training loss is the lowest over the
first ten seconds at n = 40 alone: at n = 10 and 20, where it is soonest at the target, FedAvg's is lower. (Rates are
those that touch a test accuracy soonest; a choice by training loss was not tried.) Local rate 0.1, the largest in the
paper's grid, is the choice of 15 of the 26 grids on Fashion-MNIST, of DeFedAvg's with two classes for n = 20 to 80
too; larger ones were not tried.

That FedAvg needs a multiple of DeFedAvg's time was a claim of its own until it was seen that all its comparisons are
among those of "the fastest": undecided iid, contradicted with two classes, like those rows. The multiples are in the
tables now.

## What was tried before

Transfers were in series then, and there were three seeds. One pair of rates for all n, chosen at n = 10 (server 0.1
for DeFedAvg, 1 for FedAvg), and targets of 81 and 75 %: iid FedAvg needed 2.21, 1.29, 0.50, 0.25 times as long as
DeFedAvg at n = 10, 20, 40, 80, because at a server rate of 0.1 more updates per step buy nothing. Then the paper's
own grid of server rates, 0.1 and 1, for every n: 2.52, 0.94, 0.52, 1.66 times; at n = 20 and 40, 0.1 is too small and
1, with that staleness, too large. Hence 0.3 is in the grid.

A hidden layer of 64 units did not change the two-class split (first seed): to 78 % FedAvg took 10.1 s and DeFedAvg
11.1 s at n = 40, 7.2 and 8.0 s at n = 80. The CNN of the full edition (one seed) has 1.87 and 3.51 times at n = 10,
where the paper has 1.97 and 4.24, and 1.87 and 1.12 times at n = 80 (1.80 and 1.88).
"""
FULL = """
## How far this got

One seed, at the rates of the paper's Table 2. At n = 10 FedAvg and DeFedAvg take 52.47 and 28.00 s iid (the paper has
51.89 and 26.39), 158.34 and 45.13 s with two classes per client (437.57 and 103.25). DeFedAvg's transfers overlap
with training, as section 2.1.1 says; with transfers in series it took 38.05 and 54.21 s, FedAvg the same as here. The
four runs took 3.1 hours of a core that did other work, too. AsySG with n active clients takes 277.1 s (335.16), FAVANO
is at 71 % when it is given up after 60 s; with two classes FAVANO is at 44 % then, FedBuff with 2n active clients at
72 % (in print, for an unstated number of them, 80 % after 198.54 s).

At n = 80, iid, DeFedAvg is at 90 % after 90.18 s (99.72 in print) and FedAvg after 168.49 s (179.83): 1.87 times as
long, the paper has 1.80. FedAvg rises steadily; DeFedAvg, with a server rate of 1, swings: between 80 and 89 % from 20
to 60 s, between 85 and 90 % from there on, and its run ends where it touches 90. (A look at its first 40 s, before this
run was made, had been told here as if it did not rise.) 407 and 330 server steps took 90 and 55 minutes of a core that
did other work, too. With two classes DeFedAvg is at 80 % after 108.31 s (236.3), 328 steps, and FedAvg after
121.06 s (443.56), 237 steps: 1.12 times as long, the paper has 1.88. Both rise by a point in ten to fifteen seconds by
then, so that a point's luck would turn the order. n = 20 and 40 were not run.

AsySG with all clients active, the first reading, diverged after 178 steps at the printed rate of 0.1. FedBuff with
all clients active would take 75 minutes of a core for 60 s.
"""
PARTITION = {"iid": "iid", "noniid": "classes:2"}


@dataclass(frozen=True, slots=True)
class DeFedAvgScale:
    """An edition's network and the accuracies it is asked for."""

    model: str
    target: Mapping[str, float]  # by split
    cap_s: Mapping[str, float]  # virtual seconds after which a run counts as "not reached"

    def task(self, split: str) -> NamedTask:
        return NamedTask("fashion-mnist", PARTITION[split], self.model)


SCALES: Mapping[str, DeFedAvgScale] = {
    "quick": DeFedAvgScale("softmax", {"iid": 0.83, "noniid": 0.78}, {"iid": 40.0, "noniid": 40.0}),
    "full": DeFedAvgScale("cnn", {"iid": 0.9, "noniid": 0.8}, {"iid": 600.0, "noniid": 880.0}),
}


OURS = "DeFedAvg"  # transfers overlap with training, and a step names a client once: buffers and set I_t of the paper
SAVING = "DeFedAvg, energy saving"  # section 2.3: a client trains again only after it was sampled


def devices(method: str = OURS) -> Population:
    """Section 4.1.3 with the printed constants: 17 MFLOPs per step at 10 GFLOP/s times U[1, 5]; 2.2 MB at 400 Mbit/s.

    Transfer times are those of the paper's model whatever the network, so that the two editions differ in what is
    learned, not in who waits for whom. DeFedAvg's clients receive and send while they train (section 2.1.1).
    """
    mode = "overlap" if method in (OURS, SAVING) else "serial"
    return Population(step_s=Between(0.0017, 0.0085), up_s=0.044, down_s=0.044, mode=mode)


def algorithm(method: str, split: str, n: int, rates: Pair, steps: int = 50) -> Algorithm:
    """A method of Table 1; DeFedAvg is the form for the split."""
    server, local = (1.0 if rate is None else rate for rate in rates)
    work: dict[str, Any] = {"client_lr": local, "batch_size": 10}
    match method:
        case "FedAvg":
            return algorithms.fedavg(
                clients_per_round=n, select="replacement", server_lr=server, steps=steps, **work
            )
        case "FAVANO":
            return algorithms.favano(clients_per_round=n, steps=steps, **work)
        case "AsySG":  # n clients compute gradients at a time
            one: dict[str, Any] = {"steps": 1, "client_lr": 1.0, "batch_size": 10}
            return algorithms.fedbuff(buffer=n, concurrency=n, dispatch="immediate", server_lr=server, **one)
        case "FedBuff":
            return algorithms.fedbuff(
                buffer=n,
                concurrency=100,
                dispatch="immediate",
                server_lr=server,
                steps=steps,
                **work,
            )
        case "FedBuff 2n":
            return algorithms.fedbuff(
                buffer=n,
                concurrency=min(100, 2 * n),
                dispatch="immediate",
                server_lr=server,
                steps=steps,
                **work,
            )
    if split == "iid":
        return algorithms.defedavg_iid(buffer=n, server_lr=server, steps=steps, distinct=True, **work)
    return algorithms.defedavg_niid(
        draws=n, server_lr=server, steps=steps, energy_saving=method == SAVING, **work
    )


def settings(
    more: str, targets: Mapping[str, Mapping[str, float]] | None = None
) -> dict[str, tuple[SettingRow, ...]]:
    """What both pages say about their setting, and what one of them adds (`compared`); targets of its own, if any."""
    asked = targets or {edition: scale.target for edition, scale in SCALES.items()}
    return {
        edition: compared(
            f"""
            data | Fashion-MNIST and CIFAR-10, 100 clients | Fashion-MNIST, 100 clients
            network | CNN, 582,026 parameters | {scale.model}
            target | 90 % iid, 80 % two-class
                | {asked[edition]["iid"]:.0%} iid, {asked[edition]["noniid"]:.0%} two-class
            splits | iid; two random classes per client | the same; every class with equally many clients
            local work | 50 steps, batch 10 | the same
            time | 17 MFLOPs per step, 10 GFLOP/s, slowdown U[1, 5], 0.044 s each way
                | the same constants; transfers in series, DeFedAvg's while its clients train (section 2.1.1)
            """
        )
        + compared(more)
        for edition, scale in SCALES.items()
    }
