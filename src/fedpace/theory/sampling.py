"""When normalised averaging is not consistent under client sampling: one line that says so."""

from __future__ import annotations

from collections.abc import Callable

from fedpace.aggregate import Normalised, PerStep
from fedpace.aggregate.expected import ALL, SHARE, UNIFORM, choice_of, expected_work
from fedpace.algorithm import Algorithm

OWN_TAU = (
    "tau_eff of the sampled clients is large when clients with many steps are among them, so those count more than "
    'their share (with one client per round this is plain averaging); use tau_eff="population"'
)
UNKNOWN = (
    "the clients' steps are not known before a run, so tau_eff is that of the sampled clients: " + OWN_TAU
)
WEIGHTS = (
    "weights p_i / P of the sampled clients are a ratio estimator, biased for few clients per round; consistent are "
    'select="share" with weighting="uniform", and select="uniform" with weighting="samples" and tau_eff="population"'
)
OWN_K = (
    "k_ref is the mean of the updates' own steps, so clients that take many count more than others; "
    "give a number"
)


def note(algorithm: Algorithm, clients: int, samples: Callable[[int], float]) -> str | None:
    """What is inconsistent about this algorithm's normalisation, or None."""
    rule, choice = algorithm.aggregate, choice_of(algorithm.pace, clients)
    if not isinstance(rule, Normalised | PerStep) or choice == ALL:
        return None
    known = expected_work(algorithm.local, algorithm.pace, clients, samples) is not None
    if isinstance(rule, PerStep):
        return OWN_K if rule.k_ref == "mean" and not known else None
    return _about_nova(rule, choice, known)


def _about_nova(rule: Normalised, choice: str, known: bool) -> str | None:
    if rule.tau_eff in ("sampled", "default", "steps"):
        return OWN_TAU
    if rule.tau_eff == "population" and not known:
        return UNKNOWN
    uniform = rule.weighting == "uniform" and choice in (SHARE, UNIFORM)
    unbiased = rule.weighting == "samples" and choice == UNIFORM and rule.tau_eff == "population"
    return None if uniform or unbiased else WEIGHTS
