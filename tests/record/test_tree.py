"""A value as a plain tree, and back to the same bits."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpace.errors import ConfigError
from fedpace.record.store.tree import Adapter, Tree, TreeError, Typed, pack, unpack
from fedpace.vector import Vector, freeze


class Colour(IntEnum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True, slots=True)
class Leaf:
    x: Vector | None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Knot:
    name: str


class Rule(Protocol):
    def init(self) -> Any: ...


@dataclass(slots=True)
class State:
    either: Leaf | Knot | None = None
    leaves: dict[int, Leaf] = field(default_factory=dict)
    events: list[tuple[float, Colour, Leaf | Knot | int | None]] = field(default_factory=list)
    idle: set[int] = field(default_factory=set)
    frames: dict[str, bytes] = field(default_factory=dict)
    rule: Rule | None = None
    inner: Any = None


def there_and_back(value: Any, template: Any, adapters: tuple[Adapter, ...] = ()) -> Any:
    """Through JSON text and copies of the arrays, as through a file."""
    tree = pack(value, template, adapters)
    root = json.loads(json.dumps(tree.root, allow_nan=False))
    return unpack(Tree(root, [array.copy() for array in tree.arrays], tree.layouts), template, adapters)


numbers = st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none() | st.text()
plain = st.recursive(
    numbers | st.binary(),
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.integers() | st.text(), inner)
    ),
    max_leaves=20,
)


@given(plain)
def test_plain_values_come_back_equal_and_of_the_same_types(value: Any) -> None:
    back = there_and_back(value, None)
    assert repr(back) == repr(value)


@given(st.frozensets(st.integers() | st.floats(allow_nan=False)))
def test_sets_come_back_equal_and_of_the_same_kind(value: frozenset[float]) -> None:
    back = there_and_back((value, set(value)), None)
    assert back == (value, set(value)) and list(map(type, back)) == [frozenset, set]


@given(st.floats(), st.sampled_from([np.float32, np.float64]))
def test_numbers_come_back_to_the_bit(value: float, kind: Any) -> None:
    with np.errstate(over="ignore"):
        scalar = kind(value)
    number, back = there_and_back((value, scalar), None)
    assert np.array([number]).tobytes() == np.array([value]).tobytes() or math.isnan(value)
    assert type(back) is kind and back.tobytes() == scalar.tobytes()


def test_dataclasses_are_found_by_hint_by_union_and_by_template() -> None:
    value = State(
        either=Knot("a"),
        leaves={3: Leaf(np.arange(3.0), math.inf)},
        events=[(0.5, Colour.BLUE, Leaf(None)), (0.25, Colour.RED, 7), (0.0, Colour.RED, None)],
        idle={5, 1},
        frames={"update": b"\x00\xff"},
        inner=Leaf(np.float32([1, 2])),
    )
    back = there_and_back(value, State(inner=Leaf(None)))
    assert back.either == Knot("a") and type(back.leaves[3]) is Leaf and back.leaves[3].weight == math.inf
    np.testing.assert_array_equal(back.leaves[3].x, np.arange(3.0), strict=True)
    assert [event[1] for event in back.events] == [Colour.BLUE, Colour.RED, Colour.RED]
    assert back.events[0][2] == Leaf(None) and back.events[1][2] == 7
    assert back.idle == {1, 5} and back.frames == {"update": b"\x00\xff"}
    np.testing.assert_array_equal(back.inner.x, np.float32([1, 2]), strict=True)


def test_one_array_in_two_places_is_written_once_and_is_one_array_again() -> None:
    model = freeze(np.arange(4.0))
    tree = pack(State(leaves={0: Leaf(model), 1: Leaf(model)}, inner=model), State())
    assert len(tree.arrays) == 1
    back = unpack(tree, State())
    assert back.leaves[0].x is back.leaves[1].x is back.inner


def test_read_only_arrays_stay_so_and_others_can_be_written() -> None:
    frozen, free = there_and_back((freeze(np.ones(2)), np.ones(2)), None)
    assert not frozen.flags.writeable and free.flags.writeable


def test_strided_empty_and_scalar_arrays_keep_shape_and_type() -> None:
    arrays = (np.arange(6)[::2], np.empty((0, 3), np.float16), np.array(5, np.uint8), np.ones((2, 2))[:, 1])
    for back, value in zip(there_and_back(arrays, None), arrays, strict=True):
        np.testing.assert_array_equal(back, value, strict=True)


def test_a_typed_template_decides_where_a_hint_says_nothing() -> None:
    back = there_and_back(State(inner=[(1, Knot("b"))]), State(inner=Typed(list[tuple[int, Knot | None]])))
    assert back.inner == [(1, Knot("b"))]


def test_an_adapter_keeps_an_object_that_is_no_plain_value() -> None:
    complex_numbers = Adapter(
        complex, lambda z: (z.real, z.imag), lambda parts, like: complex(*parts), tuple[float, float]
    )
    assert there_and_back([1 + 2j], None, (complex_numbers,)) == [1 + 2j]


def test_what_cannot_be_kept_is_refused_when_it_is_written_and_named() -> None:
    with pytest.raises(ConfigError, match=r"cannot keep state\.inner: its place must have a hint"):
        pack(State(inner=Knot("a")), State())
    with pytest.raises(ConfigError, match=r"state\.leaves\[3\].*arrays and numbers; got builtins\.object"):
        pack(State(leaves={3: object()}), State())  # type: ignore[dict-item]


def test_fields_that_changed_since_are_noticed() -> None:
    tree = pack(State(either=Knot("a")), State())
    tree.layouts[tree.layouts.index(["name"])] = ["title"]
    with pytest.raises(TreeError, match=r"Knot must have \['name'\]; got \['title'\], of another fedpace"):
        unpack(tree, State())


def test_a_tree_for_another_structure_is_refused() -> None:
    tree = pack(State(inner=Knot("a")), State(inner=Knot("")))
    with pytest.raises(TreeError, match="nothing is known about a value with"):
        unpack(tree, State())


def test_nothing_in_the_tree_names_a_type_of_ours() -> None:
    tree = pack(State(either=Knot("a"), leaves={1: Leaf(None)}), State())
    text = json.dumps([tree.root, tree.layouts])
    assert not any(word in text for word in ("Knot", "Leaf", "State", "test_tree", "numpy"))
