"""Orders of magnitude of multistage FedGM: the settings of its corollaries, and the rates they give.

Sun et al., AAAI 2024, Corollaries 4.2, 4.4, 4.7, 5.2 and 5.4, Remark 5.3. Θ(.) and O(.) swallow all constants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedpace.errors import require
from fedpace.theory.setting import Setting


@dataclass(frozen=True, slots=True)
class Preset:
    """What a corollary sets, and the rate that follows."""

    server_lr: float  # mean of η_s over the stages
    client_lr: float
    w2: float  # T_s η_s, the same in all stages
    max_w1: float  # W1 = η β ν / (1 − β) up to which the rate holds
    rate: float  # order of the mean squared gradient
    min_rounds: float  # T from which the rate is the dominant term


def synchronous(setting: Setting, rounds: int, stages: int = 1) -> Preset:
    """Corollaries 4.2 (W1 = 0) and 4.4 for full participation, 4.7 for M of N clients.

    4.7 prints η_l = Θ(1/√(TK)); its appendix and its rate have 1/(√T K).
    """
    k, m = setting.steps, setting.m
    size = math.sqrt(m * k)
    rate = math.sqrt(k / (rounds * m)) if setting.sampled else 1 / math.sqrt(rounds * k * m)
    largest = size if setting.sampled else size / stages
    return Preset(size, 1 / (math.sqrt(rounds) * k), rounds * size / stages, math.sqrt(largest), rate, m * k)


def autonomous(setting: Setting, rounds: int, delay: float, stages: int = 1) -> Preset:
    """Corollary 5.2: 1/√(M K T) + s²/T + K²/T, clients arriving uniformly; T as Remark 5.3 asks for it."""
    k, m = setting.steps, setting.m
    size = math.sqrt(m * k)
    rate = 1 / math.sqrt(m * k * rounds) + (delay**2 + k**2) / rounds
    return Preset(size, 1 / math.sqrt(rounds), rounds * size / stages, math.sqrt(size), rate, m * k**5)


def manageable_delay(setting: Setting, rounds: int) -> float:
    """Remark 5.3: s up to (T / (M K))^{1/4} leaves the rate 1/√(M K T) alone."""
    return math.pow(rounds / (setting.m * setting.steps), 0.25)


def skewed_arrival(shares: Sequence[float]) -> float:
    """The error floor, in units of σ_g², if client i makes up the share a_i of the arrivals: N Σ (a_i − 1/N)².

    Corollary 5.4 says that Ω(σ_g²) is unavoidable without uniform arrivals, and bounds it by 6 σ_g². Where
    Σ a_i ∇F_i = 0, which is where such a server ends, ||∇f||² = ||Σ (1/N − a_i)(∇F_i − ∇f)||² is at most this
    times σ_g², by Cauchy and Schwarz; with two clients of which one never arrives it is σ_g² itself.
    """
    a = np.asarray(shares, dtype=np.float64)
    require(a.size > 0 and bool((a >= 0).all()) and float(a.sum()) > 0, "shares", shares, ">= 0, not all 0")
    return float(a.size * ((a / a.sum() - 1 / a.size) ** 2).sum())
