"""The largest stable server step on a quadratic: exact, with and without delay.

Where updates are −c x (a quadratic; c = 1 − (1 − η_l λ)^K for K local steps of rate η_l on curvature λ), server
momentum is a linear recursion. An update that is j steps old is −c x_{t−j}; with delays drawn from π the *mean*
model obeys

    b_{t+1} = β b_t + (1 − β) D_t,   x_{t+1} = x_t − η [(1 − νβ) D_t + νβ b_t],   D_t = c Σ_j π_j x_{t−j}

whose characteristic equation, after dividing by powers of z, is

    (z − 1)(z − β) + η c [(1 − νβ) z − β (1 − ν)] Σ_j π_j z^{−j} = 0.

It is stable while all roots lie inside the unit circle. Without delay this is η c < 2 (1 + β) / (1 + β − 2νβ).
Own derivation; it makes Remark 4.5 of Sun et al., AAAI 2024 a number and decides their autonomous experiments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedpace.errors import ConfigError, require, require_count, require_number

Reals = npt.NDArray[np.float64]
Delays = int | Sequence[float] | Reals
PER_LAG = 64  # points of the unit circle looked at per step of delay: a root turns at most once per 2π / R


def stability_limit(beta: float, nu: float, delays: Delays = 1) -> float:
    """The η c at which the mean model stops being stable (mean stability): 2 for FedAvg without delay.

    `delays`: R means uniform on 0..R−1 (1: no delay), a sequence the probabilities of 0, 1, 2, ...
    Few updates per step are stricter, because single delays scatter around their mean: `mean_square_limit`.

    >>> from fedpace.theory import stability_limit
    >>> stability_limit(beta=0.0, nu=0.0), round(stability_limit(beta=0.9, nu=1.0), 6)
    (2.0, 38.0)
    >>> round(stability_limit(beta=0.0, nu=0.0, delays=3), 3)
    1.5
    """
    check_momentum(beta, nu)
    chances = probabilities(delays)
    if len(chances) == 1:
        return 2 * (1 + beta) / (1 + beta - 2 * nu * beta)
    return _first_crossing(beta, nu, chances)


def mean_square_limit(
    beta: float, nu: float, delays: Delays = 1, members: int = 1, *, cache: Delays = 1, excess: float = 0.0
) -> float:
    """The η c at which the variance of the model stops being bounded, for M = `members` independent delays a step.

    A step sees (1/M) Σ_m x_{t−j_m} = Σ_j π_j x_{t−j} + ε_t, and ε_t has the variance of x over the delays, over M.
    With h_k the model's response to a push ε at age k, variances stay bounded iff

        (1/M) Σ_k [Σ_j π_j h_{k−j}² − (Σ_j π_j h_{k−j})²] < 1.

    `cache`: the age of the update that a cache replaces (CA2FL), which adds its own scatter. `excess`: models reach
    clients with this much variance, relative to their square (a compressed downlink), which adds Σ_j π_j h_{k−j}².
    """
    require_count(members, "members")
    require_number(excess, "excess", low=0, below=math.inf, allowed=">= 0")
    highest = stability_limit(beta, nu, delays)
    chances, cached = _padded(probabilities(delays), probabilities(cache))
    scatter = _covariance(chances) + _covariance(cached) + excess * np.diag(chances)
    if not scatter.any():
        return highest
    low, high = 0.0, highest
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        fits = _scatter(middle, beta, nu, chances, scatter) < members
        low, high = (middle, high) if fits else (low, middle)
    return low


def contraction(client_lr: float, steps: float, curvature: float) -> float:
    """c = 1 − (1 − η_l λ)^K: how far K local steps go towards a client's own minimum."""
    return -math.expm1(steps * math.log1p(-min(client_lr * curvature, 1 - 1e-16)))


def probabilities(delays: Delays) -> Reals:
    """The distribution of delays, from R or from itself; trailing zeros are dropped."""
    if isinstance(delays, int | np.integer) and not isinstance(delays, bool):
        require_count(int(delays), "delays")
        return np.full(int(delays), 1 / int(delays))
    try:
        chances = np.asarray(delays, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"delays must be a number of steps, or probabilities; got {delays!r}") from None
    listed = chances.ndim == 1 and chances.size > 0 and bool((chances >= 0).all())
    sums = listed and math.isclose(float(chances.sum()), 1.0, abs_tol=1e-9)
    require(sums, "delays", delays, "a whole number >= 1, or probabilities that sum to 1")
    return np.trim_zeros(chances, "b")


def check_momentum(beta: float, nu: float) -> None:
    require_number(beta, "beta", low=0, below=1, allowed="in [0, 1)")
    require_number(nu, "nu", low=0, high=1, allowed="in [0, 1]")


def recursion(step: float, beta: float, nu: float, chances: Reals) -> tuple[Reals, Reals]:
    """The mean recursion as (A, v): s ← A s + v ε for s = (x_t, x_{t−1}, ..., x_{t−R+1}, b_t / c) and η c = `step`."""
    lags = len(chances)
    seen, push = np.append(chances, 0.0), np.zeros(lags + 1)
    push[0], push[-1] = -step * (1 - nu * beta), 1 - beta
    a = np.eye(lags + 1, k=-1)
    a[0], a[-1] = 0.0, 0.0
    a[0, 0], a[0, -1], a[-1, -1] = 1.0, -step * nu * beta, beta
    return a + np.outer(push, seen), push


def spectral_radius(step: float, beta: float, nu: float, delays: Delays = 1) -> float:
    """Of the mean recursion at η c = `step`: below 1 it is stable, and the error falls by this much per step."""
    check_momentum(beta, nu)
    a, _ = recursion(step, beta, nu, probabilities(delays))
    return float(np.abs(np.linalg.eigvals(a)).max())


def _first_crossing(beta: float, nu: float, chances: Reals) -> float:
    """The smallest η c > 0 with a root z = e^{iθ}: where −(z − 1)(z − β) / [...] is real and positive."""

    def parts(theta: Reals) -> tuple[Reals, Reals]:
        z = np.exp(1j * theta)
        lagged = np.polynomial.polynomial.polyval(1 / z, chances)
        above, below = -(z - 1) * (z - beta), ((1 - nu * beta) * z - beta * (1 - nu)) * lagged
        product, size = above * below.conj(), np.abs(below) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            return product.imag, product.real / size

    grid = np.linspace(0, math.pi, PER_LAG * (len(chances) + 2))[1:]
    odd, _ = parts(grid[:-1])  # at θ = π everything is real
    low, high = grid[:-2][odd[:-1] * odd[1:] < 0], grid[1:-1][odd[:-1] * odd[1:] < 0]
    for _ in range(60):
        middle = (low + high) / 2
        same = parts(middle)[0] * parts(low)[0] > 0
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    _, steps = parts(np.append(low, math.pi))
    return float(steps[np.isfinite(steps) & (steps > 0)].min())


def _scatter(step: float, beta: float, nu: float, chances: Reals, covariance: Reals) -> float:
    """Σ_k of the bracket in `mean_square_limit`, from P = Σ_k A^k v (A^k v)' summed by doubling."""
    a, push = recursion(step, beta, nu, chances)
    total: Reals = np.outer(push, push)
    for _ in range(60):
        more = a @ total @ a.T
        total, a = total + more, a @ a
        if not np.isfinite(total).all():
            return math.inf
        if np.abs(more).max() <= 1e-12 * np.abs(total).max():
            break
    return float((covariance * total[:-1, :-1]).sum())


def _covariance(chances: Reals) -> Reals:
    """Of the indicator of a delay."""
    covariance: Reals = np.diag(chances) - np.outer(chances, chances)
    return covariance


def _padded(*rows: Reals) -> list[Reals]:
    longest = max(map(len, rows))
    return [np.pad(row, (0, longest - len(row))) for row in rows]
