"""Learning-rate limits and bounds of buffered asynchrony: FedBuff ("asynchronous FL"), CA2FL and MF-CA2FL.

Wang, Cao, Wu, Chen & Chen, FL workshop at ICML 2023, Theorems B.5, B.7 and C.3 (informal: 2.1 and 4.1). As printed
they are not bounds. Their proofs end with (η η_l K / 4) Σ ||∇f||² on the left, and the statements divide by η η_l K:
every term must be four times as large. Gradient descent on a parabola breaks the printed form at every learning rate
(tests/theory). Other misprints, all read as the proofs have them: L³ for L² and a stray T (B.1); L² lost before
τ_max² (B.1); 90 K⁴ L² η_l² without its ||∇f||² (B.1); a minus under the root of B.5's condition; the condition
η_l <= η M (N − 1) / (2KN(M − 1)), which compares a rate with its inverse; K² L² for K L and a lost root in the
conditions of B.7 and C.3; a model of age τ can be used τ + 1 times, not τ times; η_l <= 1/(8KL), which Lemma G.2
needs. Theorem C.3 drops the update itself and keeps its quantisation error (G.2): E||v̂||² <= (1 + 2(γ² + q)) ||v||².

σ_g² is the mean over clients, as if clients arrived uniformly; `delay` is τ_max, `cache_age` is ζ_max, and CA2FL's
bound counts from the step at which every client has been heard.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fedpace.theory.setting import Setting


@dataclass(frozen=True, slots=True)
class BufferedTerms:
    """The terms of a bound on the mean squared gradient norm."""

    start: float  # falls with the number of server steps
    drift: float  # local steps, on different objectives
    noise: float  # stochastic gradients (FedBuff: and the sampling of the buffer)
    stale: float  # of it, the staleness terms

    @property
    def total(self) -> float:
        return self.start + self.drift + self.noise + self.stale


def fedbuff_limit(setting: Setting, server_lr: float, delay: float) -> float:
    """η_l up to which the bound of B.5 holds, from the three places where its proof needs it."""
    s, k, smooth = setting, setting.steps, setting.smoothness
    used = delay + 1

    def holds(client_lr: float) -> bool:
        product = server_lr * client_lr
        moved = product * k * (smooth * delay) ** 2 + smooth / 2  # what multiplies E||x_{t+1} − x_t||²
        together = s.m == 1 or 2 * k * s.clients * (s.m - 1) * product * moved <= s.m * (s.clients - 1)
        seen = 90 * (k * smooth * client_lr) ** 2 + 3
        gradients = 30 * (k * smooth * client_lr) ** 2 * used + moved * product * s.left_out * seen * k * used
        return together and gradients <= 0.25

    return largest_rate(holds, 1 / (8 * k * smooth))


def fedbuff_bound(
    setting: Setting, client_lr: float, server_lr: float, delay: float, rounds: int
) -> BufferedTerms:
    """Theorem B.5, four times (B.1):

    4F_0/(ηη_lKT) + 20KL²η_l²(σ² + 6Kσ_g²) + 2Lηη_l V/K + 4L²τ²(ηη_l)² V,
    V = Kσ²/M + (N − M)/(M(N − 1)) [15K³L²η_l²(σ² + 6Kσ_g²) + 3K²σ_g²].
    """
    s, k, smooth, product = setting, setting.steps, setting.smoothness, client_lr * server_lr
    local = s.noise + 6 * k * s.spread
    variance = k * s.noise / s.m + s.left_out * (
        15 * k**3 * (smooth * client_lr) ** 2 * local + 3 * k**2 * s.spread
    )
    return BufferedTerms(
        4 * s.gap / (product * k * rounds),
        20 * k * (smooth * client_lr) ** 2 * local,
        2 * smooth * product * variance / k,
        4 * (smooth * delay * product) ** 2 * variance,
    )


def ca2fl_limit(
    setting: Setting, server_lr: float, delay: float, cache_age: float, inflation: float = 1.0
) -> float:
    """η_l up to which the bound of B.7 (with `inflation` that of C.3) holds: (F.12), (F.13) and Lemma G.2."""
    k_l, away = setting.steps * setting.smoothness, _left_over(setting)
    square = inflation * k_l**2 * (6 * delay**2 + 12 * away * cache_age**2)
    product = _positive_root(square, inflation * k_l)
    local = 1 / (2 * math.sqrt(30) * k_l * math.sqrt(3 * (delay + 1) + 6 * away * (cache_age + 1)))
    return min(1 / (8 * k_l), local, product / server_lr)


def ca2fl_bound(
    setting: Setting,
    client_lr: float,
    server_lr: float,
    delay: float,
    cache_age: float,
    rounds: int,
    inflation: float = 1.0,
) -> BufferedTerms:
    """Theorem B.7, four times (B.3); with `inflation` = 1 + 2(γ² + q) MF-CA2FL, C.3:

    4F_0/(ηη_lKT) + 20(3 + 6c)KL²η_l²(σ² + 6Kσ_g²) + 6Lηη_lσ²/M + 36L²(ηη_l)²K(τ² + 2cζ²)σ²/M, c = ((N−M)/N)².
    No term multiplies delay by σ_g²: that is what the cache is for.
    """
    s, k, smooth, product = setting, setting.steps, setting.smoothness, client_lr * server_lr
    away = _left_over(s)
    old = delay**2 + 2 * away * cache_age**2
    return BufferedTerms(
        4 * s.gap / (product * k * rounds),
        20 * (3 + 6 * away) * k * (smooth * client_lr) ** 2 * (s.noise + 6 * k * s.spread),
        inflation * 6 * smooth * product * s.noise / s.m,
        inflation * 36 * (smooth * product) ** 2 * k * old * s.noise / s.m,
    )


def inflation(q: float, gamma: float = 0.0) -> float:
    """1 + 2(γ² + q) for a cache with E||Q(x) − x||² <= q ||x||² (C.1) and the γ of C.2; 1 for whole numbers."""
    return 1 + 2 * (gamma**2 + q)


# ------------------------------------------------------------------------ orders of magnitude


@dataclass(frozen=True, slots=True)
class RateOrders:
    """The terms of Corollaries B.6, B.8 and C.4, at η = √(KM) and η_l = 1/(√T K)."""

    start: float  # F_0 / √(TKM)
    noise: float  # σ² / √(TKM)
    drift: float  # (σ² + Kσ_g²) / (TK)
    members: float  # √K σ_g² / √(TM): sampling of the buffer (FedBuff only)
    stale_spread: float  # K τ² σ_g² / T: delay times heterogeneity (FedBuff only)
    stale_noise: float  # τ² σ² / T
    cache: float  # ζ² (N − M)² σ² / (T N²) (CA2FL only)

    @property
    def total(self) -> float:
        parts = (self.start, self.noise, self.drift, self.members)
        return math.fsum((*parts, self.stale_spread, self.stale_noise, self.cache))


def fedbuff_orders(setting: Setting, delay: float, rounds: int) -> RateOrders:
    """(B.2)."""
    s, k = setting, setting.steps
    return RateOrders(
        *_common(s, rounds),
        math.sqrt(k / (rounds * s.m)) * s.spread,
        k * delay**2 * s.spread / rounds,
        delay**2 * s.noise / rounds,
        0.0,
    )


def ca2fl_orders(
    setting: Setting, delay: float, cache_age: float, rounds: int, inflation: float = 1.0
) -> RateOrders:
    """(B.4), and (C.4) with `inflation` for its γ² + q²."""
    s = setting
    start, noise, drift = _common(s, rounds)
    old = inflation * s.noise / rounds
    return RateOrders(
        start, inflation * noise, drift, 0.0, 0.0, delay**2 * old, cache_age**2 * _left_over(s) * old
    )


def preset(setting: Setting, rounds: int) -> tuple[float, float]:
    """(η_l, η) of the corollaries: 1/(√T K) and √(KM)."""
    return 1 / (math.sqrt(rounds) * setting.steps), math.sqrt(setting.steps * setting.m)


def _common(setting: Setting, rounds: int) -> tuple[float, float, float]:
    s, k = setting, setting.steps
    slow = math.sqrt(rounds * k * s.m)
    return s.gap / slow, s.noise / slow, (s.noise + k * s.spread) / (rounds * k)


def _left_over(setting: Setting) -> float:
    """((N − M) / N)²."""
    return ((setting.clients - setting.m) / setting.clients) ** 2


def _positive_root(square: float, slope: float) -> float:
    """e > 0 with square e² + slope e = 1, without cancellation."""
    return 2 / (slope + math.sqrt(slope**2 + 4 * square))


def largest_rate(holds: Callable[[float], bool], maximum: float) -> float:
    """The largest rate up to `maximum` at which a condition holds that fails from some rate on."""
    if holds(maximum):
        return maximum
    low, high = 0.0, maximum
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
