"""Orders of magnitude of FedNova, FedAvg and FedProx: what the bounds become for the best learning rate.

Wang et al., arXiv:2007.07481, App. C.8, E.1, E.2, F and G. O(.) swallows all constants, L, σ² and κ² among them:
these numbers compare settings, they do not predict a gradient.
"""

from __future__ import annotations

import math

from fedpace.theory.work import Work

BELOW_ONE = 1 - 1e-9


def rate_optimal_lr(clients: int, mean_steps: float, rounds: int) -> float:
    """√(N / (K̄ T)), C.8; with client sampling √(q / (K̄ T)), Corollary 3. K̄ is the mean of *steps*, not of ||a||_1."""
    return math.sqrt(clients / (mean_steps * rounds))


def rate(work: Work, rounds: int, draws: int | None = None) -> float:
    """(102) and (148) for FedNova, with N or, sampled, q clients: the sum of the orders of its terms.

    (K̄/τ_eff + A) / √(N K̄ T) + N (B + C) / (K̄ T); sampled (155), A becomes τ_eff / K̄.
    """
    k, n = work.mean_steps, work.clients if draws is None else draws
    slow = math.sqrt(n * k * rounds)
    noise = work.a(work.p) if draws is None else work.tau_eff / k
    return (k / work.tau_eff + noise) / slow + n * (work.b(work.p) + work.c) / (k * rounds)


def fedavg_rate(work: Work, rounds: int) -> float:
    """(126) for FedAvg on its surrogate, p = 1/N: 1/√(N K̄ T) + N (K̄ − 1 + var K/K̄ + K_max (K_max − 1)) / (K̄ T)."""
    k, n = work.mean_steps, work.clients
    drift = k - 1 + float(work.k.var()) / k + work.max_steps * (work.max_steps - 1)
    return 1 / math.sqrt(n * k * rounds) + n * drift / (k * rounds)


def fedprox_error(alpha: float, clients: int, mean_steps: float, rounds: int) -> float:
    """(138): α K̄/√(N K̄ T) + 1/√(N K̄ T) + N/(α² K̄ T), FedProx with α = η_l μ and many local steps."""
    slow = math.sqrt(clients * mean_steps * rounds)
    return (alpha * mean_steps + 1) / slow + clients / (alpha**2 * mean_steps * rounds)


def best_proximal(clients: int, mean_steps: float, rounds: int) -> float:
    """α* = 2^{1/3} √(N/K̄) T^{-1/6}, the minimum of (138), clipped below 1; μ* = α*/η_l.

    (139) drops the constant; differentiating (138) gives it.
    """
    return min(math.cbrt(2) * math.sqrt(clients / mean_steps) * math.pow(rounds, -1 / 6), BELOW_ONE)


def fedprox_rate(clients: int, mean_steps: float, rounds: int) -> float:
    """(133): 1/√(N K̄ T) + T^{-2/3}, what (138) is at its best up to constants."""
    return 1 / math.sqrt(clients * mean_steps * rounds) + math.pow(rounds, -2 / 3)


def max_steps_for_linear_speedup(clients: int, gradients: int) -> float:
    """Corollary 2: K̄ up to (K^{1/4} N^{-3/4}), K = K̄ T gradients per client, keeps the rate 1/√(N K).

    (141) prints K̄^{4/3}; (140) and the conclusion have K̄^{2/3}.
    """
    return math.pow(gradients, 0.25) * math.pow(clients, -0.75)
