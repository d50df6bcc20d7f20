"""The devices of the papers' experiments."""

from __future__ import annotations

from dataclasses import replace

from fedpace.errors import unknown
from fedpace.sim.distributions import Between, ForModel
from fedpace.sim.population import Population

FLOPS = {"fashionmnist": 17.0e6, "cifar10": 31.4e6}  # per local step of its CNN, as DeFedAvg prints them
MULTIPLY_ACCUMULATES = {"fashionmnist": 4_267_008, "cifar10": 7_825_920}  # of that CNN, for one sample


def defedavg(dataset: str = "fashionmnist", low: float = 1.0, high: float = 5.0) -> Population:
    """DeFedAvg, section 4.1.3: slowdowns uniform on [1, 5], 10 GFLOP/s, 400 Mbit/s both ways.

    The operations of a local step are those of the paper's CNN; another model takes as many times them as it has
    multiply-accumulates. Transfers overlap with training: section 2.1.1 lets the receive buffer change meanwhile.
    """
    if dataset not in FLOPS:
        raise unknown("data set of the defedavg devices", dataset, FLOPS)
    devices = Population.uniform_slowdown(low, high, FLOPS[dataset], 10e9, 400e6)
    measured = ForModel(devices.step_s, MULTIPLY_ACCUMULATES[dataset], "DeFedAvg's CNN")  # type: ignore[arg-type]
    return replace(devices, step_s=measured, mode="overlap")


def ca2fl(scale: float | Between = 5.0) -> Population:
    """CA2FL, appendix D: a session takes s_i + |N(0, 1)| seconds; a number S means s_i ~ U(0, S).

    The text says half-normal with parameter s_i; scipy's `halfnorm.rvs(s)` takes `loc` first, and only so do the
    printed largest stalenesses come out. `Population.half_normal` is the other reading, |N(0, s_i^2)|.
    """
    shift = scale if isinstance(scale, Between) else Between(0.0, scale)
    return Population(solve_s=shift, noise_s=1.0)
