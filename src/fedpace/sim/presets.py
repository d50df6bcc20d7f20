"""The devices of the papers' experiments."""

from __future__ import annotations

from fedpace.errors import unknown
from fedpace.sim.population import Population

FLOPS = {"fashionmnist": 17.0e6, "cifar10": 31.4e6}  # per local step, as DeFedAvg prints them


def defedavg(dataset: str = "fashionmnist") -> Population:
    """DeFedAvg, section 4.1.3: slowdowns uniform on [1, 5], 10 GFLOP/s, 400 Mbit/s both ways."""
    if dataset not in FLOPS:
        raise unknown("data set of the defedavg devices", dataset, FLOPS)
    return Population.uniform_slowdown(1.0, 5.0, FLOPS[dataset], 10e9, 400e6)


def ca2fl(base_s: float = 0.0) -> Population:
    """CA2FL, appendix D: |N(0, s_i^2)| with s_i uniform on (0, 5); a base of 5 gives the printed largest staleness."""
    return Population.half_normal(5.0, base_s=base_s)
