"""Unequal local work: how biased plain averaging is, and what FedNova may be asked for."""

from __future__ import annotations

from typing import Any

from fedpace.theory import nova_bounds as nova
from fedpace.theory import nova_rates as rates
from fedpace.theory.inconsistency import final_error
from fedpace.theory.setting import EXACT, ORDER, SUFFICIENT, UPPER, Setting, StatedQuantity, rate_held
from fedpace.theory.work import Work

WANG = "Wang et al. 2020"


def bias(work: Work, setting: Setting) -> tuple[StatedQuantity, ...]:
    """How far plain averaging is from the objective it is meant for."""
    ratio = work.ratio[work.p > 0]
    left = final_error(work.chi2, 0.0, kappa2=setting.spread)
    return (
        StatedQuantity("tau_eff, effective local steps", work.tau_eff, EXACT, f"{WANG}, section 4"),
        StatedQuantity("chi-squared of shares p and plain weights w", work.chi2, EXACT, f"{WANG}, Theorem 2"),
        StatedQuantity(
            "objective inconsistency: misplaced weight", work.misplaced, EXACT, "half of the sum of |p - w|"
        ),
        StatedQuantity("largest w / p of a client", float(ratio.max()), EXACT, f"{WANG}, Theorem 1"),
        StatedQuantity("smallest w / p of a client", float(ratio.min()), EXACT, f"{WANG}, Theorem 1"),
        StatedQuantity(
            "error floor of the squared gradient", left, UPPER, f"{WANG}, Theorem 2: 2 chi² kappa²"
        ),
    )


def normalised(work: Work, setting: Setting, client_lr: float, rounds: int) -> tuple[StatedQuantity, ...]:
    """Limits and bounds of FedNova for this work."""
    smooth, sampled = setting.smoothness, setting.sampled
    problem: dict[str, Any] = {
        "smoothness": smooth,
        "sigma2": setting.noise,
        "kappa2": setting.spread,
        "gap": setting.gap,
    }
    size = setting.m if sampled else work.clients
    highest = nova.sampled_limit(work, setting.m, smooth) if sampled else nova.limit(work, smooth)
    rate, at = rate_held(client_lr, highest)
    terms = (
        nova.sampled_bound(work, rate, rounds, setting.m, **problem)
        if sampled
        else nova.bound(work, rate, rounds, **problem)
    )
    every = "; the largest over clients and draws" if work.is_random else ""
    limit = f"{WANG}, {'App. G' if sampled else '(98), (99)'}{every}"
    where = f"{WANG}, (182): drawn by share, tau_eff of the population" if sampled else f"{WANG}, (96)"
    constants = f"{WANG}, Theorem {'3: means over the draws' if work.is_random else '1'}"
    return (
        StatedQuantity("A, variance of the averaged gradient", work.a(work.p), EXACT, constants),
        StatedQuantity("B, variance through client drift", work.b(work.p), EXACT, constants),
        StatedQuantity("C, client drift", work.c, EXACT, constants),
        StatedQuantity("client_lr up to which the bound holds", highest, SUFFICIENT, limit),
        StatedQuantity(f"mean squared gradient after {rounds} rounds{at}", terms.total, UPPER, where),
        *_orders(work, size, rounds, setting.m if sampled else None),
    )


def surrogate(work: Work, setting: Setting, client_lr: float, rounds: int) -> tuple[StatedQuantity, ...]:
    """FedAvg and FedProx: the bound on the surrogate they descend, and what Theorem 2 makes of it for the objective."""
    smooth = setting.smoothness
    highest = nova.limit(work, smooth)
    rate, at = rate_held(client_lr, highest)
    problem: dict[str, Any] = {
        "smoothness": smooth,
        "sigma2": setting.noise,
        "kappa2": setting.spread,
        "gap": setting.gap,
    }
    own = nova.bound(work, rate, rounds, w=work.w, **problem).total
    whole = final_error(work.chi2, own, kappa2=setting.spread)
    where = f"{WANG}, (96), full participation"
    return (
        StatedQuantity("client_lr up to which the bounds hold", highest, SUFFICIENT, f"{WANG}, (98), (99)"),
        StatedQuantity(f"mean squared gradient of the surrogate{at}", own, UPPER, where),
        StatedQuantity(
            f"mean squared gradient of the objective{at}", whole, UPPER, f"{WANG}, Theorem 2, (113)"
        ),
        StatedQuantity(
            "rate on the surrogate", rates.fedavg_rate(work, rounds), ORDER, f"{WANG}, Cor. 1, (126)"
        ),
    )


def _orders(work: Work, size: int, rounds: int, draws: int | None) -> tuple[StatedQuantity, ...]:
    best = rates.rate_optimal_lr(size, work.mean_steps, rounds)
    alpha = rates.best_proximal(size, work.mean_steps, rounds)
    return (
        StatedQuantity(
            "client_lr with the best rate",
            best,
            ORDER,
            f"{WANG}, C.8" if draws is None else f"{WANG}, Cor. 3",
        ),
        StatedQuantity(
            "rate at that client_lr", rates.rate(work, rounds, draws), ORDER, f"{WANG}, (148), (155)"
        ),
        StatedQuantity("client_lr * prox_mu with the best rate", alpha, ORDER, f"{WANG}, Cor. 2, (138)"),
        StatedQuantity(
            "rate of fedprox with it",
            rates.fedprox_rate(size, work.mean_steps, rounds),
            ORDER,
            f"{WANG}, (133)",
        ),
    )
