"""What general momentum makes of a stream of updates: exact, on paper and in a run.

Sun et al., AAAI 2024, section 3; Ma & Yarats, arXiv:1810.06801. In the steady state the update of age j
weighs 1 − νβ for j = 0 and ν (1 − β) β^j after that; the weights sum to 1.
"""

from __future__ import annotations

from fedpace.errors import require_number


def mean_age(beta: float, nu: float) -> float:
    """Σ j w_j: by how many steps the server's direction lags behind."""
    _check(beta, nu)
    return nu * beta / (1 - beta)


def variance_factor(beta: float, nu: float) -> float:
    """Σ w_j²: the variance of the direction when updates are independent with variance 1."""
    _check(beta, nu)
    return (1 - nu * beta) ** 2 + (nu * beta) ** 2 * (1 - beta) / (1 + beta)


def stability_limit(beta: float, nu: float) -> float:
    """Below what η c the model stays bounded where updates are −c x (a quadratic): 2 for FedAvg.

    For K local steps of rate η_l on curvature λ, c = 1 − (1 − η_l λ)^K.
    """
    _check(beta, nu)
    return 2 * (1 + beta) / (1 + beta - 2 * nu * beta)


def _check(beta: float, nu: float) -> None:
    require_number(beta, "beta", low=0, below=1, allowed="in [0, 1)")
    require_number(nu, "nu", low=0, high=1, allowed="in [0, 1]")
