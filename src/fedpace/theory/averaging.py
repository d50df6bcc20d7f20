"""The weights that general momentum gives to past updates: exact, on paper and in a run.

Sun et al., AAAI 2024, section 3; Ma & Yarats, arXiv:1810.06801. In the steady state the update of age j
weighs 1 − νβ for j = 0 and ν (1 − β) β^j after that; the weights sum to 1.
"""

from __future__ import annotations

from fedpace.theory.stability import check_momentum


def mean_age(beta: float, nu: float) -> float:
    """Σ j w_j: by how many steps the server's direction lags behind."""
    check_momentum(beta, nu)
    return nu * beta / (1 - beta)


def variance_factor(beta: float, nu: float) -> float:
    """Σ w_j²: the variance of the direction when updates are independent with variance 1."""
    check_momentum(beta, nu)
    return (1 - nu * beta) ** 2 + (nu * beta) ** 2 * (1 - beta) / (1 + beta)
