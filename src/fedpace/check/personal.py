"""What every rule of personalisation promises."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedpace.check.purity import assert_value, guarded
from fedpace.compute.protocol import Request
from fedpace.local import SGD, descend_until
from fedpace.local.personal import Personal
from fedpace.vector import Layout, Vector, freeze

LAYOUT = Layout.of({"body.weight": (3,), "norm.weight": (2,), "head.weight": (2,)})


def check_personal(rule: Personal, *, sessions: int = 3, seed: int = 0) -> None:
    """Training is pure and writes to nothing; update and memory have the promised sizes, the client's model is whole.

    Tried on a model of three tensors: body.weight, norm.weight (of a BatchNorm) and head.weight.
    """
    assert_value(rule)
    rng = np.random.default_rng(seed)
    whole, center = freeze(rng.normal(size=LAYOUT.size)), freeze(rng.normal(size=LAYOUT.size))
    parts = rule.parts(LAYOUT, ("norm.weight",))
    assert parts.whole == LAYOUT, f"{rule}: its parts are of another model"
    x, initial = freeze(parts.shared_of(whole).copy()), freeze(parts.private_of(whole))
    memory: Vector | None = None
    for number in range(1, sessions + 1):
        beside = rule.beside(2, lambda local: 2)
        assert isinstance(beside, int) and beside >= 0, f"{rule}: {beside} steps beside the others"
        local = SGD(0.125, steps=2, prox_mu=0.5)
        asked = Request(0, number, x, 0, local, 2, seed, data=0, memory=memory, beside=beside)
        delta, kept = _trained_twice(rule, asked, parts, initial, center)
        assert delta.shape == x.shape, f"{rule}: an update has {delta.size} entries, not {x.size}"
        size = rule.memory_size(parts)
        assert kept.shape == (size,), f"{rule}: a memory has {kept.size} entries, not {size} as it says"
        memory = freeze(kept)
        model = rule.model(x, memory, parts, initial)
        assert model.shape == whole.shape, (
            f"{rule}: a client's model has {model.size} entries of {whole.size}"
        )


def _trained_twice(rule: Personal, asked: Request, *about: Any) -> tuple[Vector, Vector]:
    *known, center = about

    def solve(request: Request) -> Vector:
        end, _ = descend_until(
            lambda y, k: y - center,
            np.asarray(request.start),
            request.local,
            request.steps,
            None,
            request.correction,
            request.frozen,
        )
        return end

    one, two = (guarded(rule, "train", asked, *known, solve) for _ in range(2))
    same = np.array_equal(one[0], two[0]) and np.array_equal(one[1], two[1])
    assert same, f"{rule}: the same request gave two results"
    delta, memory = one
    return delta, memory
