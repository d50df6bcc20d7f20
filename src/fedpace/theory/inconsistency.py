"""How biased plain averaging is when clients do different amounts of work.

Wang et al., arXiv:2007.07481, section 4 and App. C-F. With shares p_i and weights a_i of the local gradients,
plain averaging of the updates descends, exactly, the surrogate Σ w_i F_i with w_i = p_i ||a_i||_1 / τ_eff
instead of Σ p_i F_i.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from fedpace.errors import require, require_number
from fedpace.local import SGD

Reals = npt.NDArray[np.float64]
NOTICEABLE = 0.01  # chi-squared from which one line of advice is worth the reader's time


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """The clients' shares p_i and what their local solvers make of a gradient."""

    p: Reals  # shares, sum 1
    steps: Reals  # K_i
    norm1: Reals  # ||a_i||_1
    norm2: Reals  # ||a_i||²
    last: Reals  # the last entry of a_i

    @classmethod
    def of(cls, local: SGD, steps: Sequence[int], p: Sequence[float] | None = None) -> Self:
        """Clients that take `steps` of `local`, with shares proportional to `p` (None: equal)."""
        require(len(steps) > 0, "steps", steps, "one number per client")
        shares = np.ones(len(steps)) if p is None else np.asarray(p, dtype=np.float64)
        require(len(shares) == len(steps), "p", len(shares), f"{len(steps)} shares, one per client")
        require(bool((shares >= 0).all()) and float(shares.sum()) > 0, "p", p, "shares >= 0, not all 0")
        vectors = {k: local.a_vector(k) for k in set(steps)}
        return cls(
            shares / shares.sum(),
            np.array(steps, dtype=np.float64),
            np.array([local.a_norm1(k) for k in steps]),
            np.array([float(vectors[k] @ vectors[k]) for k in steps]),
            np.array([float(vectors[k][-1]) for k in steps]),
        )

    @classmethod
    def mean(cls, works: Sequence[Self]) -> Self:
        """Clients whose work is drawn anew in every round, each of `works` with the same chance: expectations."""
        columns = (
            [getattr(work, name) for work in works] for name in ("p", "steps", "norm1", "norm2", "last")
        )
        return cls(*(np.mean(column, axis=0) for column in columns))

    @property
    def clients(self) -> int:
        return len(self.p)

    @property
    def tau_eff(self) -> float:
        """Σ p_i ||a_i||_1: how many gradients a round is worth."""
        return float(self.p @ self.norm1)

    @property
    def w(self) -> Reals:
        """The weights of the objectives that plain averaging descends."""
        weights: Reals = self.p * self.norm1 / self.tau_eff
        return weights

    @property
    def ratio(self) -> Reals:
        """w_i / p_i = ||a_i||_1 / τ_eff: how many times its share a client counts."""
        counted: Reals = self.norm1 / self.tau_eff
        return counted

    @property
    def chi2(self) -> float:
        """χ²(p, w) = Σ (p_i − w_i)² / w_i: 0 if and only if plain averaging is not biased."""
        return chi_squared(self.p, self.w)

    @property
    def misplaced(self) -> float:
        """Half of Σ |p_i − w_i|: the share of the objective that goes to the wrong clients."""
        return float(np.abs(self.p - self.w).sum()) / 2

    def a(self, w: Reals) -> float:
        """A = N τ_eff Σ w_i² ||a_i||² / ||a_i||_1²; w = p for FedNova."""
        return float(self.clients * self.tau_eff * (w**2 * self.norm2 / self.norm1**2).sum())

    def b(self, w: Reals) -> float:
        """B = Σ w_i (||a_i||² − last_i²)."""
        return float((w * (self.norm2 - self.last**2)).sum())

    @property
    def c(self) -> float:
        """C = max ||a_i||_1 (||a_i||_1 − last_i)."""
        return float((self.norm1 * (self.norm1 - self.last)).max())


def chi_squared(p: Reals, w: Reals) -> float:
    """χ²(p, w) over the clients that have a weight; infinite if one with a share has none."""
    if (w[p > 0] == 0).any():
        return math.inf
    used = w > 0
    return float(((p[used] - w[used]) ** 2 / w[used]).sum())


def gradient_error(chi2: float, surrogate: float, bd2: float = 1.0, kappa2: float = 1.0) -> float:
    """Upper bound on ||∇F − ∇F~||², `surrogate` being ||∇F~||²: χ² ((B² − 1) ||∇F~||² + κ²)."""
    return chi2 * ((bd2 - 1) * surrogate + kappa2)


def final_error(chi2: float, optimised: float, bd2: float = 1.0, kappa2: float = 1.0) -> float:
    """Upper bound on ||∇F||² once ||∇F~||² <= `optimised`: what is left for ever is 2 χ² κ²."""
    require_number(bd2, "bd2", low=1, below=math.inf, allowed=">= 1")
    return 2 * (chi2 * (bd2 - 1) + 1) * optimised + 2 * chi2 * kappa2


def advice(work: Work, threshold: float = NOTICEABLE) -> str | None:
    """One line if plain averaging is noticeably biased for this work, else None."""
    if work.chi2 < threshold:
        return None
    worst = int(np.argmax(np.where(work.p > 0, work.ratio, 0.0)))
    return (
        f"plain averaging is biased here: chi-squared {work.chi2:.3g}, {work.misplaced:.0%} of the objective "
        f"goes to the wrong clients (client {worst} counts {work.ratio[worst]:.2g} times its "
        "share); fednova counts every client by its share"
    )
