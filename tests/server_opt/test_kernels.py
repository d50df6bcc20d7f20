"""Long vectors take one compiled pass: same bits as the rule's own formula on short ones."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from fedpace import kernels
from fedpace.kernels import memory
from fedpace.server_opt import Adagrad, Adam, AMSGrad, Momentum, ServerOpt, Yogi
from fedpace.vector import Vector, freeze

RULES = [
    Momentum(1.5, 0.9, 0.7),
    Adam(0.1),
    Yogi(0.1, b2=0.9),
    Adagrad(0.1, b1=0.3),
    AMSGrad(0.1),
    AMSGrad(0.1, option=2),
]


def trail(rule: ServerOpt, x: Vector, updates: list[Vector]) -> tuple[Vector, Any]:
    state = rule.init(x)
    for delta in updates:
        x, state = rule.apply(freeze(x), freeze(delta), state)
    return x, state


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_pass_has_the_bits_of_the_formula(
    rule: ServerOpt, dtype: type[np.floating[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    size = 1003
    x = rng.normal(size=size).astype(dtype)
    updates = [rng.normal(size=size).astype(dtype) for _ in range(3)]
    plain, plain_state = trail(rule, x, updates)
    calls = []
    run = kernels.run
    monkeypatch.setattr(kernels, "LONG", 1000)
    monkeypatch.setattr(kernels, "run", lambda *arguments: calls.append(arguments[0]) or run(*arguments))
    fused, fused_state = trail(rule, x, updates)
    assert len(calls) == 3
    assert fused.dtype == dtype
    np.testing.assert_array_equal(fused, plain)
    for field in fields(plain_state):
        np.testing.assert_array_equal(getattr(fused_state, field.name), getattr(plain_state, field.name))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("factor", [1.0, 0.3, -2.0])
def test_adding_in_place(
    dtype: type[np.floating[Any]], factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    total, v = rng.normal(size=(2, 1003)).astype(dtype)
    expected = total + factor * v
    for long in (kernels.LONG, 1000):
        monkeypatch.setattr(kernels, "LONG", long)
        sum_ = total.copy()
        kernels.add_scaled(sum_, freeze(v.copy()), factor)
        np.testing.assert_array_equal(sum_, expected)


def test_only_long_contiguous_vectors_of_one_type_take_the_pass() -> None:
    long = np.zeros(kernels.LONG, np.float32)
    assert kernels.fits(long, long)
    assert not kernels.fits(long[1:])
    assert not kernels.fits(long, long.astype(np.float64))
    assert not kernels.fits(np.zeros(2 * kernels.LONG, np.float32)[::2])


def test_a_read_only_cache_directory_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where numba finds no directory for its cache it raises RuntimeError; the loop is compiled without."""
    import numba

    njit, cached = numba.njit, []

    def without_directory(signature: Any, cache: bool = False, **options: Any) -> Any:
        if cache:
            cached.append(signature)
            raise RuntimeError("cannot cache function: no locator available")
        return njit(signature, **options)

    monkeypatch.setattr(numba, "njit", without_directory)
    kernels._compiled.cache_clear()
    total = np.ones(3)
    kernels.run("add_scaled", (np.ones(3),), (total,), (2.0,))
    kernels._compiled.cache_clear()
    assert total.tolist() == [3.0, 3.0, 3.0]
    assert len(cached) == 1


def address(v: Vector) -> int:
    return int(v.__array_interface__["data"][0])


def test_memory_of_long_vectors_is_used_again_once_nobody_holds_it() -> None:
    model = np.zeros(memory.LONG_BYTES // 4 + 1, np.float32)
    first = kernels.empty_like(model)
    place, view = address(first), first[10:]
    del first
    assert address(kernels.empty_like(model)) != place, "a view still looks at it"
    del view
    assert address(kernels.empty_like(model)) == place


def test_lent_memory_makes_ordinary_vectors() -> None:
    model = np.zeros(memory.LONG_BYTES // 8 + 1)
    lent = kernels.empty_like(model)
    assert (lent.shape, lent.dtype, lent.flags.c_contiguous, lent.flags.writeable) == (
        model.shape,
        model.dtype,
        True,
        True,
    )
    lent[:] = 3.0
    assert np.array_equal(pickle.loads(pickle.dumps(lent)), lent)
    assert kernels.empty_like(model[:5]).base is None


def test_only_few_blocks_lie_idle() -> None:
    model = np.zeros(memory.LONG_BYTES // 4 + 2, np.float32)
    lent = [kernels.empty_like(model) for _ in range(memory.MAX_IDLE + 2)]
    assert len({address(v) for v in lent}) == memory.MAX_IDLE + 2
    lent.clear()
    assert len(memory._idle[model.size, model.dtype]) == memory.MAX_IDLE
