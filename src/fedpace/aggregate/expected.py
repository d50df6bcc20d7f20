"""The expected local work of the clients, as far as it is known before a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpace.pace import ByShare, Pace, Replayed, Rounds, Uniform, WithReplacement
from fedpace.vector import Vector

ALL, UNIFORM, SHARE, OTHER = "all", "uniform", "share", "other"


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedWork:
    """Every client's expected work in a session, and how the members of a server step are chosen."""

    samples: Vector  # n_i
    steps: Vector  # E[K_i]
    a_norm1: Vector  # E ||a_i||_1
    choice: str  # all, uniform, share (probability n_i / n) or other


def settled(
    aggregate: Any,
    local: Any,
    pace: Pace,
    clients: int,
    samples: Callable[[int], float],
    known: Sequence[int] | None = None,
) -> Any:
    """The aggregation rule for these clients: itself, unless it has `settled` and wants to know their work."""
    if not hasattr(aggregate, "settled"):
        return aggregate
    return aggregate.settled(lambda: expected_work(local, pace, clients, samples, known))


def expected_work(
    local: Any,
    pace: Pace,
    clients: int,
    samples: Callable[[int], float],
    known: Sequence[int] | None = None,
) -> ExpectedWork | None:
    """None where the clock decides how much a client does, or a local rule does not tell.

    `known`: the clients it is the work of, in ascending order; all of them if it is not given.
    """
    if not hasattr(local, "outcomes"):
        return None
    members = range(clients) if known is None else known
    sizes = np.array([samples(client) for client in members])
    # of a million clients with as much data, one is looked at; unless steps are given client by client
    by_client = isinstance(getattr(local, "steps", ()), tuple)
    _, first, alike = np.unique(
        np.arange(len(members)) if by_client else sizes, return_index=True, return_inverse=True
    )
    outcomes = [local.outcomes(members[at], float(sizes[at])) for at in first.tolist()]
    if None in outcomes:
        return None
    steps = np.array([np.mean(ks) for ks in outcomes])
    norms = np.array([np.mean([local.a_norm1(k) for k in ks]) for ks in outcomes])
    return ExpectedWork(sizes, steps[alike], norms[alike], choice_of(pace, clients))


def choice_of(pace: Any, clients: int) -> str:
    """How a pacing rule chooses the members of a step."""
    select = getattr(pace, "select", None)
    if isinstance(select, ByShare):
        return SHARE
    if isinstance(select, WithReplacement):
        return UNIFORM
    if not isinstance(select, Uniform):
        return OTHER
    full = isinstance(pace, Rounds | Replayed) and (pace.per_step or clients) >= clients
    return ALL if full else UNIFORM
