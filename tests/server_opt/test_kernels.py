"""Long vectors take one compiled pass: same bits as the rule's own formula on short ones."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from fedpace import kernels
from fedpace.errors import NotFiniteError
from fedpace.kernels import memory
from fedpace.link.codecs.dense import decode_dense, encode_dense
from fedpace.server_opt import Adagrad, Adam, AMSGrad, Momentum, ServerOpt, Stages, Yogi
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


@pytest.mark.parametrize(
    "rule", [Momentum(1.5), Stages(((1, AMSGrad(0.2)), (2, AMSGrad(0.1)))), *RULES], ids=repr
)
def test_a_spent_step_has_the_bits_of_a_pure_one(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """... and needs no memory: the model lies where the update was, and the state where it was."""
    monkeypatch.setattr(kernels, "LONG", 1000)
    monkeypatch.setattr(kernels, "BLOCK", 300)
    rng = np.random.default_rng(0)
    x, *updates = [rng.normal(size=1003).astype(np.float32) for _ in range(4)]
    pure, pure_state = trail(rule, x, updates)
    state = rule.init(x)
    for delta in updates:
        spent = delta.copy()
        x, state = rule.spend(freeze(x), spent, state)
        assert x is spent
    np.testing.assert_array_equal(x, pure)
    for mine, theirs in zip(vectors(state), vectors(pure_state), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_spent_step_that_is_not_finite_leaves_the_state(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "LONG", 1000)
    monkeypatch.setattr(kernels, "BLOCK", 300)
    delta, x = np.ones(1003, np.float32), np.zeros(1003, np.float32)
    _, state = rule.apply(x, delta, rule.init(x))
    before = [v.copy() for v in vectors(state)]
    delta[1000] = np.inf
    with pytest.raises(NotFiniteError):
        rule.spend(x, delta, state)
    for mine, theirs in zip(vectors(state), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_read_only_vectors_are_not_spent(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "LONG", 1000)
    delta, x = freeze(np.ones(1003, np.float32)), np.zeros(1003, np.float32)
    state = rule.init(x)
    out, after = rule.spend(x, delta, state)
    assert out is not delta
    assert after is not state
    assert not any(v.any() for v in vectors(state))


def vectors(state: Any) -> list[Vector]:
    found = [getattr(state, field.name) for field in fields(state)]
    return vectors(found[1]) if isinstance(found[0], int) else [v for v in found if v is not None]


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
    other = kernels.empty_like(model)
    assert address(other) != place, "a view still looks at it"
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


def test_a_long_vector_is_its_own_frame() -> None:
    model = np.ones(memory.LONG_BYTES // 4 + 3, np.float32)
    lent, copied = kernels.scaled(model, 3.0), 3.0 * model
    frame = encode_dense(lent, round=7)
    assert frame == encode_dense(copied, round=7)
    assert np.shares_memory(lent, np.frombuffer(frame, np.uint8))
    assert not lent.flags.writeable
    again = encode_dense(lent, round=8)
    assert (frame, again) == (encode_dense(copied, round=7), encode_dense(copied, round=8))


def test_a_part_of_a_long_vector_is_no_frame() -> None:
    model = np.ones(memory.LONG_BYTES // 4 + 4, np.float32)
    lent = kernels.scaled(model, 3.0)
    assert encode_dense(lent[:-1]) == encode_dense(3.0 * model[:-1])
    assert lent.flags.writeable


def test_memory_that_became_a_frame_is_not_used_again() -> None:
    model = np.ones(memory.LONG_BYTES // 4 + 5, np.float32)
    lent = kernels.scaled(model, 3.0)
    frame = encode_dense(lent)
    del lent
    kernels.scaled(model, 5.0)
    assert np.array_equal(decode_dense(frame, model.size), 3.0 * model)
    wide = kernels.scaled(model.astype(np.float64), 3.0)
    assert np.array_equal(decode_dense(encode_dense(wide), model.size), 3.0 * model)
