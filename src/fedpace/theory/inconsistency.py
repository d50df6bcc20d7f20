"""How biased plain averaging is when clients do different amounts of work.

Wang et al., arXiv:2007.07481, section 4 and App. C-F. With shares p_i and weights a_i of the local gradients,
plain averaging of the updates descends, exactly, the surrogate Σ w_i F_i with w_i = p_i ||a_i||_1 / τ_eff
instead of Σ p_i F_i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedpace.errors import require_number
from fedpace.theory.work import Reals, Work

NOTICEABLE = 0.01  # chi-squared from which one line of advice is worth the reader's time


def dissimilarity(gradients: Reals, w: Reals) -> float:
    """κ² of Assumption 3 with β² = 1 at one point: Σ w_i ||∇F_i − Σ w_j ∇F_j||², `gradients` being (N, d)."""
    apart = gradients - w @ gradients
    return float(w @ (apart * apart).sum(axis=1))


def gradient_error(chi2: float, surrogate: float, bd2: float = 1.0, kappa2: float = 1.0) -> float:
    """Upper bound on ||∇F − ∇F~||², `surrogate` being ||∇F~||²: χ² ((B² − 1) ||∇F~||² + κ²)."""
    return chi2 * ((bd2 - 1) * surrogate + kappa2)


def final_error(chi2: float, optimised: float, bd2: float = 1.0, kappa2: float = 1.0) -> float:
    """Upper bound on ||∇F||² once ||∇F~||² <= `optimised`: the error floor is 2 χ² κ²."""
    require_number(bd2, "bd2", low=1, below=math.inf, allowed=">= 1")
    return 2 * (chi2 * (bd2 - 1) + 1) * optimised + 2 * chi2 * kappa2


@dataclass(frozen=True, slots=True)
class TwoClients:
    """The example of Lemma 4: F_1 = (x − a)²/2 and F_2 = (x + a)²/2, p = 1/2, K_1 and K_2 local steps.

    (116) prints κ² = 2 w_1 w_2 a². Its own sum is w_1 (2 w_2 a)² + w_2 (2 w_1 a)² = 4 w_1 w_2 a², twice as much;
    with it the lower bound (114) holds with equality: the squared gradient left is χ² κ² exactly, half of what
    Theorem 2 allows.
    """

    a: float
    steps: tuple[int, int]

    @property
    def w(self) -> Reals:
        k: Reals = np.array(self.steps, dtype=np.float64)
        weights: Reals = k / k.sum()
        return weights

    @property
    def kappa2(self) -> float:
        """4 w_1 w_2 a², (116) without its slip."""
        return float(4 * self.w[0] * self.w[1] * self.a**2)

    @property
    def chi2(self) -> float:
        return float(((0.5 - self.w) ** 2 / self.w).sum())

    @property
    def left(self) -> float:
        """lim ||∇F||² = ((K_1 − K_2) / (K_1 + K_2))² a², (120), for a vanishing learning rate."""
        k1, k2 = self.steps
        return ((k1 - k2) / (k1 + k2)) ** 2 * self.a**2


def advice(work: Work, threshold: float = NOTICEABLE) -> str | None:
    """One line if plain averaging is noticeably biased for this work, else None."""
    if work.chi2 < threshold:
        return None
    worst = int(np.argmax(np.where(work.p > 0, work.ratio, 0.0)))
    return (
        f"plain averaging is biased here: chi-squared {work.chi2:.3g}, {work.misplaced:.0%} of the weight "
        f"is misplaced (objective inconsistency; client {worst} counts {work.ratio[worst]:.2g} times its share); "
        'fednova counts every client by its share, under client sampling with tau_eff="population", its default'
    )
