"""The clients' shares, and the gradient weights of their local solvers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from fedpace.errors import require
from fedpace.local import SGD

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Work:
    """Shares p_i, and the local work of every client: fixed, or drawn anew in every round.

    Wang et al., arXiv:2007.07481. The arrays have a row for each of the equally likely amounts of work (one row:
    fixed work) and a column for each client; clients draw independently of each other. A quantity of a round is
    then random, and `a`, `b` and `c` are the means A~, B~, C~ of A(t), B(t), C(t) that (147) asks for, while
    conditions on a learning rate must hold in every round and need the largest, (152).
    """

    p: Reals  # shares, sum 1
    k: Reals  # K_i
    a1: Reals  # ||a_i||_1
    a2: Reals  # ||a_i||²
    end: Reals  # the last entry of a_i

    @classmethod
    def of(cls, local: SGD, steps: Sequence[int], p: Sequence[float] | None = None) -> Self:
        """Clients that take `steps` of `local`, with shares proportional to `p` (None: equal)."""
        return cls.drawn(local, [steps], p)

    @classmethod
    def drawn(cls, local: SGD, plans: Sequence[Sequence[int]], p: Sequence[float] | None = None) -> Self:
        """Clients that take `plans[0][i]`, `plans[1][i]`, ... steps, each as likely as the others."""
        require(len(plans) > 0 and len(plans[0]) > 0, "steps", plans, "one number per client")
        clients = len(plans[0])
        shares = np.ones(clients) if p is None else np.asarray(p, dtype=np.float64)
        require(len(shares) == clients, "p", len(shares), f"{clients} shares, one per client")
        require(bool((shares >= 0).all()) and float(shares.sum()) > 0, "p", p, "shares >= 0, not all 0")
        vectors = {k: local.a_vector(k) for plan in plans for k in set(plan)}
        return cls(
            shares / shares.sum(),
            np.array(plans, dtype=np.float64),
            np.array([[local.a_norm1(k) for k in plan] for plan in plans]),
            np.array([[float(vectors[k] @ vectors[k]) for k in plan] for plan in plans]),
            np.array([[float(vectors[k][-1]) for k in plan] for plan in plans]),
        )

    # ------------------------------------------------------------------- expectations, per client

    @property
    def clients(self) -> int:
        return len(self.p)

    @property
    def is_random(self) -> bool:
        return len(self.k) > 1

    @cached_property
    def steps(self) -> Reals:
        """E[K_i]."""
        return _mean(self.k)

    @cached_property
    def norm1(self) -> Reals:
        """E ||a_i||_1."""
        return _mean(self.a1)

    @property
    def mean_steps(self) -> float:
        """K̄, the mean number of local steps: τ̄ of Corollary 2 and C.8, τ~ of Theorem 3."""
        return float(self.k.mean())

    @property
    def max_steps(self) -> int:
        """The largest K_i over clients and draws."""
        return int(self.k.max())

    # ---------------------------------------------------------------------------- of a whole round

    @property
    def tau_eff(self) -> float:
        """Σ p_i E||a_i||_1: how many gradients a round is worth."""
        return float(self.p @ self.norm1)

    @property
    def w(self) -> Reals:
        """The weights of the objectives that plain averaging descends."""
        weights: Reals = self.p * self.norm1 / self.tau_eff
        return weights

    @property
    def ratio(self) -> Reals:
        """w_i / p_i = E||a_i||_1 / τ_eff: how many times its share a client counts."""
        counted: Reals = self.norm1 / self.tau_eff
        return counted

    @property
    def chi2(self) -> float:
        """χ²(p, w) = Σ (p_i − w_i)² / w_i: 0 if and only if plain averaging is not biased."""
        return chi_squared(self.p, self.w)

    @property
    def misplaced(self) -> float:
        """Half of Σ |p_i − w_i|: the misplaced weight, a measure of objective inconsistency."""
        return float(np.abs(self.p - self.w).sum()) / 2

    # ------------------------------------------------------------- constants of the theorems, (143)-(145)

    def a(self, w: Reals) -> float:
        """A~ = N E[τ_eff Σ w_i² ||a_i||² / ||a_i||_1²] for fixed weights w; w = p for FedNova.

        τ_eff is the round's own, Σ p_j ||a_j||_1: for j ≠ i it is independent of client i's draw.
        """
        noise = self.a2 / self.a1**2
        apart = _mean(noise) * (self.tau_eff - self.p * self.norm1)
        own = self.p * _mean(noise * self.a1)
        return float(self.clients * (w**2 * (apart + own)).sum())

    def b(self, w: Reals) -> float:
        """B~ = Σ w_i E[||a_i||² − last_i²]."""
        return float((w * _mean(self.a2 - self.end**2)).sum())

    @cached_property
    def c(self) -> float:
        """C~ = E[max_i ||a_i||_1 (||a_i||_1 − last_i)], exact for independent draws."""
        return _mean_of_largest(self._drift)

    @property
    def largest_c(self) -> float:
        """C of the worst round, for conditions that must hold in every round."""
        return float(self._drift.max())

    @property
    def largest_tau_eff(self) -> float:
        """τ_eff of the round in which every client takes its largest number of steps."""
        return float(self.p @ self.a1.max(axis=0))

    @property
    def _drift(self) -> Reals:
        drift: Reals = self.a1 * (self.a1 - self.end)
        return drift


def chi_squared(p: Reals, w: Reals) -> float:
    """χ²(p, w) over the clients that have a weight; infinite if one with a share has none.

    >>> import numpy as np
    >>> from fedpace.theory import chi_squared
    >>> chi_squared(np.array([0.5, 0.5]), np.array([0.2, 0.8]))
    0.5625
    """
    if (w[p > 0] == 0).any():
        return math.inf
    used = w > 0
    return float(((p[used] - w[used]) ** 2 / w[used]).sum())


def _mean(rows: Reals) -> Reals:
    mean: Reals = rows.mean(axis=0)
    return mean


def _mean_of_largest(rows: Reals) -> float:
    """E[max_i X_i] for independent X_i, each uniform on its column: Σ x (F(x) − F(x−)), F = Π F_i."""
    values = np.unique(rows)
    columns = np.sort(rows, axis=0)
    log_below = np.zeros(len(values))
    for column in columns.T:
        reached = np.searchsorted(column, values, side="right") / len(column)
        with np.errstate(divide="ignore"):
            log_below += np.log(reached)
    chance = np.diff(np.exp(log_below), prepend=0.0)
    return float(chance @ values)
