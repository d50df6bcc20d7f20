"""What every aggregation rule promises."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from fedpace.aggregate.protocol import Aggregator, Contribution
from fedpace.check.plain import assert_plain
from fedpace.check.purity import assert_value, frozen, guarded, same
from fedpace.vector import Vector, freeze


def check_aggregator(
    rule: Aggregator,
    *,
    clients: int = 4,
    size: int = 6,
    steps: int = 3,
    memoryless: bool = False,
    seed: int = 0,
) -> None:
    """Writes to nothing it was given, gives its result away, keeps the type, and can be resumed anywhere.

    `memoryless` rules (no caches) also promise that counting twice is coming twice, and that the order of
    arrival is only rounding.
    """
    assert_value(rule)
    for dtype in (np.float32, np.float64):
        x, updates = _material(clients, size, steps, seed, dtype)
        whole = _run(rule, x, updates, clients)
        assert _equal(whole, _run(rule, x, updates, clients)), (
            f"{rule}: the same updates gave different results"
        )
        assert _equal(whole, _run(rule, x, updates, clients, copy=True)), (
            f"{rule}: a copied state went on differently"
        )
        if memoryless:
            _check_multiplicity(rule, x, updates[0], clients)
            _check_order(rule, x, updates[0], clients, dtype)


def _material(
    clients: int, size: int, steps: int, seed: int, dtype: type[np.floating[Any]]
) -> tuple[Vector, list[list[Contribution]]]:
    rng = np.random.default_rng(seed)
    x = freeze(rng.normal(size=size).astype(dtype))
    work = rng.integers(1, 9, size=(steps, clients))
    updates = [
        [
            Contribution(
                client=client,
                delta=freeze(rng.normal(size=size).astype(dtype)),
                samples=float(10 + client),
                steps=int(k),
                a_norm1=float(k),
                staleness=client % 3,
                rng=lambda: np.random.default_rng(seed),
            )
            for client, k in enumerate(row)
        ]
        for row in work
    ]
    return x, updates


def _run(
    rule: Aggregator, x: Vector, updates: list[list[Contribution]], clients: int, copy: bool = False
) -> list[Vector]:
    state, results = rule.init(x, clients), []
    for members in updates:
        settled, before = frozen(state), deepcopy(state)
        for update in members:
            state = guarded(rule, "add", update, x, x, deepcopy(state) if copy else state)
        assert_plain(state, f"{rule}: the state")
        result, state = guarded(rule, "result", state)
        assert same(settled, before), (
            f"{rule}: add or result changes the state that the step began from, which must stay as it is in case "
            f"the step is not taken"
        )
        assert result.shape == x.shape and result.dtype == x.dtype, f"{rule}: the result has another form"
        assert not any(np.shares_memory(result, update.delta) for update in members), (
            f"{rule}: the result must not be one of the updates"
        )
        results.append(result.copy())
        result.fill(np.nan)  # it is the caller's now: nothing later may depend on it
    return results


def _check_multiplicity(rule: Aggregator, x: Vector, members: list[Contribution], clients: int) -> None:
    first, *rest = members
    counted = _run(rule, x, [[replace(first, count=2), *rest]], clients)
    came = _run(rule, x, [[first, first, *rest]], clients)
    np.testing.assert_allclose(
        counted[0], came[0], rtol=1e-5, err_msg=f"{rule}: counting twice is coming twice"
    )


def _check_order(
    rule: Aggregator, x: Vector, members: list[Contribution], clients: int, dtype: type[np.floating[Any]]
) -> None:
    one, other = _run(rule, x, [members], clients), _run(rule, x, [members[::-1]], clients)
    slack = 10 * clients * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(
        one[0], other[0], rtol=slack, atol=10 * slack, err_msg=f"{rule}: the order of arrival must not matter"
    )


def _equal(one: list[Vector], other: list[Vector]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
