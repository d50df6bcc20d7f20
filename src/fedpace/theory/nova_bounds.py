"""Learning-rate limits and bounds of FedNova, and of FedAvg and FedProx seen through the same lens.

Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
arXiv:2007.07481, App. D-H; equation numbers are those of the appendix. `bd2` and `kappa2` are its
dissimilarity constants (beta² and kappa² there): Σ w_i ||∇F_i||² <= bd2 ||Σ w_i ∇F_i||² + kappa2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedpace.errors import require_count, require_number
from fedpace.theory.work import Reals, Work


@dataclass(frozen=True, slots=True)
class NovaTerms:
    """The four terms of a bound on the mean squared gradient norm."""

    start: float  # falls with the number of rounds
    noise: float  # stochastic gradients, averaged over clients
    drift_noise: float  # stochastic gradients, through local drift
    drift: float  # different objectives, through local drift

    @property
    def total(self) -> float:
        return self.start + self.noise + self.drift_noise + self.drift


def limit(work: Work, smoothness: float = 1.0, bd2: float = 1.0) -> float:
    """η_l up to which (96) holds: (98), η L <= 1/(2 τ_eff), and (99), 4 η² L² C <= 1/(2 B² + 1).

    Where work is drawn both must hold in every round: τ_eff and C are the largest over clients and draws, as in
    (152).
    """
    _check(smoothness, bd2)
    return min(1 / (2 * work.largest_tau_eff), _root(4 * work.largest_c * (2 * bd2 + 1))) / smoothness


def sampled_limit(work: Work, draws: int, smoothness: float = 1.0, bd2: float = 1.0) -> float:
    """η_l up to which (182) holds for q = `draws` clients drawn by share: also 1/(12 τ_eff (1 + B²/q)) and
    4 η² L² C <= 1/(12 B² + 1)."""
    _check(smoothness, bd2)
    require_count(draws, "draws")
    sampled = 1 / (12 * work.largest_tau_eff * (1 + bd2 / draws))
    return min(limit(work, 1.0, bd2), sampled, _root(4 * work.largest_c * (12 * bd2 + 1))) / smoothness


def bound(
    work: Work,
    client_lr: float,
    rounds: int,
    *,
    w: Reals | None = None,
    smoothness: float = 1.0,
    sigma2: float = 1.0,
    kappa2: float = 1.0,
    gap: float = 1.0,
) -> NovaTerms:
    """(96), and for drawn work (147); w = p (default) for FedNova, `work.w` for plain averaging, whose bound is
    on its surrogate."""
    w, eta = work.p if w is None else w, client_lr * smoothness
    return NovaTerms(
        4 * gap / (client_lr * work.tau_eff * rounds),
        4 * eta * sigma2 * work.a(w) / work.clients,
        6 * eta**2 * sigma2 * work.b(w),
        12 * eta**2 * kappa2 * work.c,
    )


def sampled_bound(
    work: Work,
    client_lr: float,
    rounds: int,
    draws: int,
    *,
    smoothness: float = 1.0,
    sigma2: float = 1.0,
    kappa2: float = 1.0,
    gap: float = 1.0,
) -> NovaTerms:
    """(182): q = `draws` clients drawn by share with replacement, the same weight each, and a τ_eff that does not
    depend on the draw (153): `select="share"`, `weighting="uniform"`, `tau_eff="population"`. With the τ_eff of
    the sampled clients nothing bounds the gradient: the model goes to another point."""
    eta = client_lr * smoothness
    return NovaTerms(
        8 * gap / (client_lr * work.tau_eff * rounds),
        8 * work.tau_eff * eta * (sigma2 + 3 * kappa2) / draws,
        48 * eta**2 * sigma2 * work.b(work.p),
        96 * eta**2 * kappa2 * work.c,
    )


def _root(square: float) -> float:
    """1/√square, infinite where there is no drift."""
    return math.inf if square == 0 else 1 / math.sqrt(square)


def _check(smoothness: float, bd2: float) -> None:
    require_number(smoothness, "smoothness", above=0, below=math.inf, allowed="> 0")
    require_number(bd2, "bd2", low=1, below=math.inf, allowed=">= 1")
