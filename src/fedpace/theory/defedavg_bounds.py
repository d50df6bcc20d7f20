"""Learning rates, bounds and delays of DeFedAvg.

"Achieving Linear Speedup in Asynchronous Federated Learning with Heterogeneous Clients", Theorems 1 (nIID) and 2
(IID), conditions (11) and (13), bounds (12) and (14). Bounds are those of the proofs, for any learning rates that
meet the conditions; at the theorems' own rates they are (14), and 10/32 of the first term of (12).

Misprints: η̄ of Theorem 1 is 1 / (K √((4σ²L + 2LKG²) T)), as in its proof; the first term of (14) lacks L σ² under
the root, which covers that term only. λ is the largest delay, at least 1. `setting.m` is n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedpace.errors import require_count, require_number
from fedpace.theory.setting import Setting


@dataclass(frozen=True, slots=True)
class DeFedAvgTerms:
    """The three terms of a bound on the mean squared gradient norm."""

    start: float  # falls with the number of server steps
    noise: float  # stochastic gradients and sampled clients, averaged over the n updates of a step
    drift: float  # local steps away from the model that was sent

    @property
    def total(self) -> float:
        return self.start + self.noise + self.drift


@dataclass(frozen=True, slots=True)
class Rates:
    client_lr: float
    server_lr: float

    @property
    def product(self) -> float:
        return self.client_lr * self.server_lr


# ---------------------------------------------------------------------------------------- non-IID


def niid_largest_product(setting: Setting, delay: float) -> float:
    """η η̄ up to which (11) holds: min{1/(4LKλ), (2σ² + G²K) / (8σ²LKλ + 4LG²K²λ²)}."""
    s, lag = setting, max(delay, 1.0)
    size = s.smoothness * s.steps
    noise, far = 2 * s.noise + s.gradient * s.steps, 8 * s.noise * lag + 4 * s.gradient * s.steps * lag**2
    return min(1 / (4 * size * lag), noise / (size * far) if far else math.inf)


def niid_limit(setting: Setting, server_lr: float, delay: float) -> float:
    """η̄ up to which (11) holds for this server rate: also η̄ <= 1/(8LK)."""
    local = 1 / (8 * setting.smoothness * setting.steps)
    return min(local, niid_largest_product(setting, delay) / server_lr)


def niid_bound(setting: Setting, rates: Rates, rounds: int) -> DeFedAvgTerms:
    """4F_0/(KTηη̄) + (16σ²L + 8LG²K) ηη̄/n + (σ² + 8Kν²) 8L²K η̄²."""
    s, k, smooth = setting, setting.steps, setting.smoothness
    return DeFedAvgTerms(
        4 * s.gap / (k * rounds * rates.product),
        4 * _niid_noise(s) * rates.product / s.m,
        8 * (s.noise + 8 * k * s.widest_spread) * k * (smooth * rates.client_lr) ** 2,
    )


def niid_rates(setting: Setting, rounds: int) -> Rates:
    """Theorem 1: η = √(4nKF_0), η̄ = 1/(K √((4σ²L + 2LKG²) T))."""
    s, k = setting, setting.steps
    return Rates(_over(1, k * math.sqrt(_niid_noise(s) * rounds)), math.sqrt(4 * s.m * k * s.gap))


def niid_printed(setting: Setting, rounds: int) -> float:
    """(12) as printed, at the rates of Theorem 1."""
    s, k, noise = setting, setting.steps, _niid_noise(setting)
    first = math.sqrt(256 * s.gap * 4 * noise / (s.m * k * rounds))
    return first + _over(8 * s.smoothness**2 * (s.noise + 8 * k * s.widest_spread), noise * k * rounds)


def niid_min_rounds(setting: Setting, delay: float) -> float:
    """T from which the rates of Theorem 1 meet (11): Ω(n K λ⁴) with the constants."""
    local = _over(64 * setting.smoothness**2, _niid_noise(setting))
    return max(local, setting.m * _niid_rounds_per_update(setting, delay))


def niid_max_updates(setting: Setting, delay: float, rounds: int) -> float:
    """n up to which T steps are enough for (11), so that more updates per step still mean fewer steps."""
    return _over(rounds, _niid_rounds_per_update(setting, delay))


def _niid_rounds_per_update(setting: Setting, delay: float) -> float:
    """T / n at which η η̄ of Theorem 1 is as large as (11) allows."""
    s, noise = setting, _niid_noise(setting)
    return _over(4 * s.gap, s.steps * noise * niid_largest_product(s, delay) ** 2)


# -------------------------------------------------------------------------------------------- IID


def iid_limit(setting: Setting, server_lr: float, delay: float) -> float:
    """η̄ up to which (13) holds: 1/(4√3 LK) and η η̄ <= 1/(4LKλ)."""
    size = setting.smoothness * setting.steps
    return min(1 / (4 * math.sqrt(3) * size), 1 / (4 * size * max(delay, 1.0) * server_lr))


def iid_bound(setting: Setting, rates: Rates, rounds: int) -> DeFedAvgTerms:
    """4F_0/(KTηη̄) + 8Lηη̄σ²/n + 8L²Kη̄²σ²."""
    s, k, smooth = setting, setting.steps, setting.smoothness
    return DeFedAvgTerms(
        4 * s.gap / (k * rounds * rates.product),
        8 * smooth * rates.product * s.noise / s.m,
        8 * k * (smooth * rates.client_lr) ** 2 * s.noise,
    )


def iid_rates(setting: Setting, rounds: int) -> Rates:
    """Theorem 2: η = √(nKF_0/2), η̄ = 1/(K √(σ²LT))."""
    s, k = setting, setting.steps
    return Rates(_over(1, k * math.sqrt(s.noise * s.smoothness * rounds)), math.sqrt(s.m * k * s.gap / 2))


def iid_printed(setting: Setting, rounds: int) -> float:
    """(14) with L σ² under the root: √(128 L σ² F_0/(nKT)) + 8L/(KT)."""
    s, k = setting, setting.steps
    first = math.sqrt(128 * s.smoothness * s.noise * s.gap / (s.m * k * rounds))
    return first + 8 * s.smoothness / (k * rounds)


def iid_min_rounds(setting: Setting, delay: float) -> float:
    """T from which the rates of Theorem 2 meet (13): 8nKLλ²F_0/σ², and 48L/σ²."""
    return max(
        _over(48 * setting.smoothness, setting.noise), setting.m * _iid_rounds_per_update(setting, delay)
    )


def iid_max_updates(setting: Setting, delay: float, rounds: int) -> float:
    """n up to which T steps are enough for (13): n K <= T σ² / (8Lλ²F_0)."""
    return _over(rounds, _iid_rounds_per_update(setting, delay))


def _iid_rounds_per_update(setting: Setting, delay: float) -> float:
    s, lag = setting, max(delay, 1.0)
    return _over(8 * s.steps * s.smoothness * lag**2 * s.gap, s.noise)


# ------------------------------------------------------------------------------------------ delays


def longest_absence(clients: int, draws: int, rounds: int, risk: float = 0.05) -> int:
    """Steps within which every client is drawn again, all through the run, with probability >= 1 − `risk`.

    A client is drawn in a step with p = 1 − (1 − 1/N)^n; N T (1 − p)^λ <= δ. This is the λ of the paper's order
    (1/p)(1 + log(NT/δ)), and the delay of clients that train only when asked (`energy_saving`).
    """
    require_count(clients, "clients")
    require_count(draws, "draws")
    require_count(rounds, "rounds")
    require_number(risk, "risk", above=0, below=1, allowed="in (0, 1)")
    missed = draws * math.log1p(-1 / clients) if clients > 1 else -math.inf
    return max(1, math.ceil(math.log(clients * rounds / risk) / -missed))


def delay_order(clients: int, draws: int, rounds: int, risk: float = 0.05) -> float:
    """(1/p)(1 + log(NT/δ)), p = 1 − (1 − 1/N)^n: the order the paper gives for λ."""
    p = -math.expm1(draws * math.log1p(-1 / clients)) if clients > 1 else 1.0
    return (1 + math.log(clients * rounds / risk)) / p


def _niid_noise(setting: Setting) -> float:
    """4σ²L + 2LKG²."""
    return setting.smoothness * (4 * setting.noise + 2 * setting.steps * setting.gradient)


def _over(above: float, below: float) -> float:
    """above / below, infinite where nothing is divided by: without noise the theorems set no bound."""
    return above / below if below else math.inf
