"""What a run costs in privacy, by Google's dp-accounting: one event of the library for each use of the mechanism.

select="poisson"          add-or-remove   PLD   Poisson-sampled Gaussian, once per step
rounds of a fixed size    replace-one     RDP   Gaussian of half the noise, sampled without replacement, per step
everything else           zero-out        PLD   Gaussian, once per contribution of the client with most of them
mechanism="tree"          zero-out        RDP   a tree, once for every tree that client took part in
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from fedpace.errors import ConfigError, require
from fedpace.pace import Pace, Poisson, Rounds, Uniform
from fedpace.privacy.client_dp import ClientDP

ADJACENCIES = ("add-or-remove", "replace-one", "zero-out")
INTERVAL = 1e-3  # of the discretised privacy losses, which are rounded up
MOST_USES = 2**20  # a search for the longest run ends here
FINEST = 1e-4  # relative precision of a noise multiplier that is looked for


@dataclass(frozen=True, slots=True)
class Accounting:
    """One use of a mechanism, and the epsilon of many."""

    adjacency: str
    noise_multiplier: float
    clients: int  # N
    cohort: int  # clients per step, where they are sampled
    tree_steps: int = 0  # steps of a tree; 0: independent noise

    @property
    def accountant(self) -> str:
        return "RDP" if self.adjacency == "replace-one" or self.tree_steps else "PLD"

    @property
    def per_step(self) -> bool:
        """Every step is a use; otherwise every contribution of the client with most of them."""
        return self.adjacency != "zero-out"

    def epsilon(self, uses: int, delta: float) -> float:
        """After so many uses."""
        return _epsilon(((self, uses),), self.accountant, delta) if uses else 0.0

    def most_uses(self, epsilon: float, delta: float) -> int:
        """The most uses that stay within a budget."""
        high = 1
        while high < MOST_USES and self.epsilon(high, delta) <= epsilon:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.epsilon(middle, delta) <= epsilon else (low, middle)
        return low


def accounting_of(rule: ClientDP, pace: Pace, clients: int) -> Accounting:
    """How runs with this rule and pacing are accounted for."""
    cohort = min(pace.per_step or clients, clients)
    if rule.tree:
        return Accounting("zero-out", rule.noise_multiplier, clients, cohort, rule.tree_steps)
    select = getattr(pace, "select", None)
    sampled = isinstance(pace, Rounds)
    adjacency = (
        "add-or-remove"
        if sampled and isinstance(select, Poisson)
        else "replace-one"
        if sampled and isinstance(select, Uniform)
        else "zero-out"
    )
    return Accounting(adjacency, rule.noise_multiplier, clients, cohort)


def calibrated(rule: ClientDP, pace: Pace, clients: int, steps: int) -> ClientDP:
    """The rule with the least noise that keeps `steps` steps within its budget."""
    require(rule.epsilon is not None, "epsilon", rule.epsilon, "a budget, to calibrate the noise")
    known = accounting_of(rule, pace, clients)
    uses = steps if known.per_step else rule.contributions
    if uses is None and known.tree_steps:
        uses = math.ceil(steps / known.tree_steps)
    if uses is None:
        raise ConfigError(
            "contributions must be given to calibrate the noise without amplification by sampling: "
            "how often one client may take part; got None"
        )
    return replace(rule, noise_multiplier=_least_noise(known, uses, float(rule.epsilon or 0), rule.delta))


def _least_noise(known: Accounting, uses: int, epsilon: float, delta: float) -> float:
    def fits(noise: float) -> bool:
        return replace(known, noise_multiplier=noise).epsilon(uses, delta) <= epsilon

    high = 1.0
    while not fits(high):
        high *= 2
        require(high < 1e6, "epsilon", epsilon, f"a budget that {uses} uses can keep at delta {delta:g}")
    low = high / 2
    while low > 1e-2 and fits(low):
        low, high = low / 2, low
    while high - low > FINEST * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


# ------------------------------------------------------------ the library


Uses = tuple[tuple[Accounting, int], ...]


@lru_cache(maxsize=65536)
def _epsilon(uses: Uses, accountant: str, delta: float) -> float:
    """Of all these together."""
    return (_by_pld if accountant == "PLD" else _by_rdp)(uses, delta)


def _by_pld(uses: Uses, delta: float) -> float:
    total: Any = None
    for each, count in uses:
        loss = _losses(each).self_compose(count) if count > 1 else _losses(each)
        total = loss if total is None else total.compose(loss)
    return float(total.get_epsilon_for_delta(delta))


def _by_rdp(uses: Uses, delta: float) -> float:
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    total = sum(_renyi(each) * count for each, count in uses)
    return float(rdp.compute_epsilon(rdp.DEFAULT_RDP_ORDERS, total, delta)[0])


@lru_cache(maxsize=64)
def _losses(each: Accounting) -> Any:
    """The distribution of privacy losses of one use."""
    accounting = _library()
    accountant = accounting.pld.PLDAccountant(_relation(each), value_discretization_interval=INTERVAL)
    accountant.compose(_event(each))
    return accountant._pld  # what `compose` made: later uses are convolutions of it


@lru_cache(maxsize=64)
def _renyi(each: Accounting) -> Any:
    """The Renyi divergences of one use, at the library's orders."""
    accountant = _library().rdp.RdpAccountant(neighboring_relation=_relation(each))
    with _quiet():
        accountant.compose(_event(each))
    return accountant._rdp  # what `compose` made: later uses are multiples of it


def _relation(each: Accounting) -> Any:
    relations = _library().NeighboringRelation
    known = (relations.ADD_OR_REMOVE_ONE, relations.REPLACE_ONE, relations.REPLACE_SPECIAL)
    return dict(zip(ADJACENCIES, known, strict=True))[each.adjacency]


def _event(each: Accounting) -> Any:
    """One use, as the library knows it."""
    a = _library()
    if each.tree_steps:
        return a.SingleEpochTreeAggregationDpEvent(each.noise_multiplier, [each.tree_steps])
    if each.adjacency == "zero-out":
        return a.GaussianDpEvent(each.noise_multiplier)
    if each.adjacency == "add-or-remove":
        return a.PoissonSampledDpEvent(each.cohort / each.clients, a.GaussianDpEvent(each.noise_multiplier))
    # one client in another's place moves the sum by twice the clip, which the library does not know
    replaced = a.GaussianDpEvent(each.noise_multiplier / 2)
    return a.SampledWithoutReplacementDpEvent(each.clients, each.cohort, replaced)


def _library() -> Any:
    try:
        import dp_accounting
        from dp_accounting import pld, rdp  # noqa: F401  (subpackages)
    except ImportError:
        raise ConfigError(
            "privacy needs a package that is not installed: pip install 'fedpace[privacy]'"
        ) from None
    return dp_accounting


@contextmanager
def _quiet() -> Iterator[None]:
    """The library warns of orders that it leaves out, which costs tightness and nothing else."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def together(uses: Uses, delta: float) -> float:
    """Epsilon of several runs on the same clients, all of one adjacency."""
    pld = all(each.accountant == "PLD" for each, _ in uses)
    return _epsilon(uses, "PLD" if pld else "RDP", delta)
