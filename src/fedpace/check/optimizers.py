"""What every server optimizer promises."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from fedpace.check.plain import assert_plain
from fedpace.check.purity import assert_value, pure
from fedpace.server_opt.protocol import ServerOpt
from fedpace.vector import Vector, freeze


def check_server_opt(opt: ServerOpt, *, size: int = 7, steps: int = 5, seed: int = 0) -> None:
    """Pure at its interface, of the vector's own type, still while nothing moves, and resumable anywhere."""
    assert_value(opt)
    for dtype in (np.float32, np.float64):
        rng = np.random.default_rng(seed)
        x = freeze(rng.normal(size=size).astype(dtype))
        deltas = [freeze(rng.normal(size=size).astype(dtype)) for _ in range(steps)]
        _check_stillness(opt, x)
        whole = _run(opt, x, opt.init(x), deltas)[0]
        again = _run(opt, x, opt.init(x), deltas)[0]
        assert np.array_equal(whole, again), f"{opt}: the same updates gave different models"
        half, state = _run(opt, x, opt.init(x), deltas[: steps // 2])
        assert_plain(state, f"{opt}: the state")
        resumed = _run(opt, half, deepcopy(state), deltas[steps // 2 :])[0]
        assert np.array_equal(whole, resumed), f"{opt}: a copied state went on differently"


def _run(opt: ServerOpt, x: Vector, state: Any, deltas: list[Vector]) -> tuple[Vector, Any]:
    for delta in deltas:
        after, state = pure(opt, "apply", x, delta, state)
        assert after.shape == x.shape and after.dtype == x.dtype, f"{opt}: the next model has another form"
        assert not np.shares_memory(after, x), f"{opt}: the next model must be a new vector"
        assert not np.shares_memory(after, delta), f"{opt}: the next model must not be the update"
        assert np.isfinite(after).all(), f"{opt}: a finite update led to a model that is not"
        x = freeze(after)
    return x, state


def _check_stillness(opt: ServerOpt, x: Vector) -> None:
    still, _ = pure(opt, "apply", x, np.zeros_like(x), opt.init(x))
    assert np.array_equal(still, x), f"{opt}: moved on an update of zeros"
