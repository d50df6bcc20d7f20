"""Whether a pacing rule has the methods it needs, and whether they return what is expected of them."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from fedpace.check.purity import same
from fedpace.pace.available import Available
from fedpace.pace.protocol import Decision, Order, Pace, Poll, Send

NEEDS = ("client", "keeps", "per_step", "init", "expects", "arrived", "lost", "joined", "woke", "dispatch")
RETURNS: dict[str, tuple[Any, str]] = {
    "dispatch": (tuple, "a tuple of orders"),
    "expects": (str, 'why the update would be refused, or ""'),
    "arrived": (Decision, "a Decision"),
    "lost": (bool, "whether to take a step"),
    "joined": (type(None), "nothing"),
    "woke": (bool, "whether to take a step"),
}


@dataclass(frozen=True, slots=True)
class FirstUpdate:
    """The header of a first session's update."""

    client: int
    session: int = 1
    version: int = 0
    round: int = 0


def check_interface(pace: Pace, clients: int) -> None:
    """Call every method once, by hand."""
    for name in NEEDS:
        assert hasattr(pace, name), (
            f"{pace} lacks {name}, which every pacing rule has (fedpace/pace/protocol.py)"
        )
    state = pace.init(clients)
    orders = _called(pace, "dispatch", 0, 0.0, Available(clients), state, lambda: np.random.default_rng(0))
    for order in orders:
        assert isinstance(order, get_args(Order)), (
            f"{pace}: dispatch returns {order!r:.60} among its orders; it returns orders only, and changes its "
            f"state in place"
        )
    chosen = [order.client for order in orders if isinstance(order, Send | Poll)]
    update, before = FirstUpdate(chosen[0] if chosen else 0), deepcopy(state)
    expected = _called(pace, "expects", update, 0, state)
    assert same(before, state), f"{pace}: expects changes the state; it only answers"
    if not expected:
        _called(pace, "arrived", update, 0, state)
    _called(pace, "lost", chosen[-1] if chosen else clients - 1, state)
    _called(pace, "joined", 0, state)
    _called(pace, "woke", 0.0, state)


def _called(pace: Pace, method: str, *given: Any) -> Any:
    result, (kind, meaning) = getattr(pace, method)(*given), RETURNS[method]
    assert isinstance(result, kind), (
        f"{pace}: {method} must return {meaning}, and change its state in place; got a {type(result).__name__}"
    )
    return result
