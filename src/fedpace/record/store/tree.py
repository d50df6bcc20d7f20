"""A value as a plain tree: arrays in a list, everything else as JSON, and back.

A tree of dataclasses, tuples, lists, dicts, sets, arrays, numbers, text and bytes. What is written names
no type and no code: reading fills the structure that the reader already has. Which dataclass a node becomes is
said by type hints; where a hint says nothing (`Any`, a protocol), by what stands in the same place of a
template, usually the value that `init` builds, or a `Typed` hint put there.

Arrays that are one object are written once and are one object again, read-only ones stay read-only. Numbers come
back to the bit.

    None, True, 3, 0.5, "text", [...]     themselves
    {"a": k} {"b": k} {"n": k}            array k; as bytes; as a numpy scalar         ("r": read-only)
    {"x": "inf"}                          a float that JSON does not have
    {"t": [...]} {"s": [...]} {"f": ...}  tuple, set, frozenset
    {"d": [key, value, ...]}              dict, in order
    {"e": 3}                              a member of an enum
    {"o": [...], "l": k, "u": i}          a dataclass with the field names `layouts[k]`, the i-th that its place allows
    {"p": node, "u": i}                   what the i-th adapter that its place allows made of an object
"""

from __future__ import annotations

import enum
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from fedpace.errors import CheckpointError, ConfigError

Node: TypeAlias = Any  # what JSON can hold
Array: TypeAlias = npt.NDArray[Any]


_MISFITS = (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError, OverflowError)


class TreeError(CheckpointError):
    """A tree that does not fit the structure it is read into."""


@dataclass(frozen=True, slots=True)
class Typed:
    """Stands in a template for a value of this type."""

    hint: Any


class Adapter(NamedTuple):
    """How to keep an object that is no plain value: as a plain one, and back with the template's help."""

    kind: type
    to_plain: Callable[[Any], object]
    from_plain: Callable[[Any, Any], Any]  # (plain, template)
    hint: Any = Any  # of the plain form


@dataclass(slots=True)
class Tree:
    """What was packed: `arrays` as they are, `root` and `layouts` as JSON takes them."""

    root: Node = None
    arrays: list[Array] = field(default_factory=list)
    layouts: list[list[str]] = field(default_factory=list)


def pack(value: object, template: object, adapters: Sequence[Adapter] = ()) -> Tree:
    """`value` as a tree; ConfigError names what cannot be kept and where it is."""
    packer = _Packer(adapters)
    try:
        packer.tree.root = packer.node(value, Any, template)
    except _Unkeepable as error:
        where = "".join(reversed(error.path))
        raise ConfigError(f"a checkpoint cannot keep state{where}: {error}") from None
    return packer.tree


def unpack(tree: Tree, template: object, adapters: Sequence[Adapter] = ()) -> Any:
    """The value that `pack` was given; TreeError where tree and template do not fit."""
    try:
        return _Unpacker(tree, adapters).value(tree.root, Any, template)
    except _MISFITS as error:
        raise TreeError(f"its content does not fit this run ({error})") from error


class _Unkeepable(Exception):
    """Raised where something cannot be kept; every level on the way out adds where it was."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path: list[str] = []


class _Packer:
    def __init__(self, adapters: Sequence[Adapter]) -> None:
        self.tree, self.adapters = Tree(), adapters
        self._places: dict[int, int] = {}  # id of an array -> its place
        self._kept: list[object] = []  # so that no id is used twice while we work
        self._layouts: dict[type, int] = {}

    def node(self, value: Any, hint: Any, like: object) -> Node:
        kind = type(value)
        if kind in _THEMSELVES:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"x": repr(value)}
        if kind in _CONTAINERS:
            return self._container(value, hint, like)
        if kind is bytes:
            return {"b": self._place(value)}
        if isinstance(value, np.ndarray):
            return {"a": self._place(value)} | ({} if value.flags.writeable else {"r": 1})
        if isinstance(value, np.generic):
            return {"n": self._place(np.asarray(value))}
        if isinstance(value, enum.Enum):
            return {"e": value.value}
        return self._object(value, hint, like)

    def _container(self, value: object, hint: Any, like: object) -> Node:
        if isinstance(value, dict):
            return {"d": self._pairs(value, hint, like)}
        nodes = [self.node(v, item, example) for v, item, example in _items(value, hint, like)]
        tag = _CONTAINERS[type(value)]
        return {tag: nodes} if tag else nodes

    def _pairs(self, value: dict[Any, Any], hint: Any, like: object) -> list[Node]:
        key, item = _pair(_hint(hint, like))
        example = next(iter(like.values()), None) if isinstance(like, dict) else None
        nodes = []
        for k, v in value.items():
            nodes.append(self.node(k, key, None))
            try:
                nodes.append(self.node(v, item, example))
            except _Unkeepable as error:
                error.path.append(f"[{k!r}]")
                raise
        return nodes

    def _object(self, value: object, hint: Any, like: object) -> Node:
        kind: Any = type(value)
        for at, adapter in enumerate(self.adapters):
            if kind is adapter.kind:
                return {"p": self.node(adapter.to_plain(value), adapter.hint, None), "u": at}
        allowed = _dataclasses(_hint(hint, like), _type(like))
        if kind not in allowed:
            raise _Unkeepable(_why(value, allowed))
        known = like if type(like) is kind else None
        nodes = []
        for name, of in _hints(kind).items():
            try:
                nodes.append(self.node(getattr(value, name), of, getattr(known, name, None)))
            except _Unkeepable as error:
                error.path.append(f".{name}")
                raise
        node = {"o": nodes, "l": self._layout(kind)}
        return node | {"u": allowed.index(kind)} if len(allowed) > 1 else node

    def _place(self, value: Array | bytes) -> int:
        place = self._places.get(id(value))
        if place is None:
            place = self._places[id(value)] = len(self.tree.arrays)
            self._kept.append(value)
            whole = (
                np.frombuffer(value, np.uint8) if isinstance(value, bytes) else np.ascontiguousarray(value)
            )
            self.tree.arrays.append(
                whole.reshape(np.shape(value)) if isinstance(value, np.ndarray) else whole
            )
        return place

    def _layout(self, kind: type) -> int:
        if kind not in self._layouts:
            self._layouts[kind] = len(self.tree.layouts)
            self.tree.layouts.append(list(_hints(kind)))
        return self._layouts[kind]


class _Unpacker:
    def __init__(self, tree: Tree, adapters: Sequence[Adapter]) -> None:
        self.tree, self.adapters = tree, adapters
        self._arrays: dict[int, Array] = {}
        self._bytes: dict[int, bytes] = {}

    def value(self, node: Node, hint: Any, like: object) -> Any:
        """What a node stands for, once it is of a type that its place allows."""
        value, allowed = self._value(node, hint, like), _types(_hint(hint, like))
        if allowed and value is not None and not isinstance(value, allowed):  # a state may not be there yet
            names = " or ".join(kind.__name__ for kind in allowed if kind.__module__ != "numpy")
            raise TreeError(f"a value must be {names}; got {type(value).__name__}")
        return value

    def _value(self, node: Node, hint: Any, like: object) -> Any:
        if isinstance(node, list):
            return [self.value(n, item, example) for n, item, example in _items(node, hint, like)]
        if not isinstance(node, dict):
            return node
        match node:
            case {"a": place}:
                return self._array(place, "r" in node)
            case {"b": place}:
                return self._bytes.setdefault(place, self.tree.arrays[place].tobytes())
            case {"n": place}:
                return self.tree.arrays[place][()]
            case {"x": text}:
                return float(text)
            case {"e": member}:
                return _enumeration(hint, like)(member)
            case {"d": pairs}:
                return self._dict(pairs, hint, like)
            case {"o": nodes}:
                return self._dataclass(node, nodes, hint, like)
            case {"p": plain}:
                adapter = self.adapters[node["u"]]
                return adapter.from_plain(self.value(plain, adapter.hint, None), like)
        ((tag, nodes),) = node.items()
        return _NAMED[tag](self.value(n, item, example) for n, item, example in _items(nodes, hint, like))

    def _array(self, place: int, read_only: bool) -> Array:
        if place not in self._arrays:
            array = self.tree.arrays[place]
            self._arrays[place] = array if array.flags.writeable else array.copy()
            self._arrays[place].flags.writeable = not read_only
        return self._arrays[place]

    def _dict(self, pairs: list[Node], hint: Any, like: object) -> dict[Any, Any]:
        key, item = _pair(_hint(hint, like))
        example = next(iter(like.values()), None) if isinstance(like, dict) else None
        keys = (self.value(node, key, None) for node in pairs[::2])
        return dict(zip(keys, (self.value(node, item, example) for node in pairs[1::2]), strict=True))

    def _dataclass(self, node: Mapping[str, Any], nodes: list[Node], hint: Any, like: Any) -> Any:
        allowed = _dataclasses(_hint(hint, like), _type(like))
        if not allowed:
            raise TreeError(f"nothing is known about a value with {self.tree.layouts[node['l']]}")
        kind = allowed[node.get("u", 0)]
        hints = _hints(kind)
        if list(hints) != self.tree.layouts[node["l"]]:
            raise TreeError(
                f"{kind.__name__} must have {list(hints)}; got {self.tree.layouts[node['l']]}, of another fedpace"
            )
        made, known = kind.__new__(kind), like if type(like) is kind else None
        for (name, of), part in zip(hints.items(), nodes, strict=True):
            object.__setattr__(made, name, self.value(part, of, getattr(known, name, None)))
        return made


# ------------------------------------------------------------ what hints and templates say

_NUMBERS = {int: (np.integer,), float: (int, np.floating, np.integer), bool: (np.bool_,)}
_KINDS = {str, bytes, list, tuple, set, frozenset, dict, np.ndarray, type(None)}
_THEMSELVES = {type(None), bool, int, str}
_CONTAINERS: dict[type, str] = {list: "", tuple: "t", set: "s", frozenset: "f", dict: "d"}
_NAMED: dict[str, Callable[[Iterable[Any]], Any]] = {"t": tuple, "s": set, "f": frozenset}


def _hint(hint: Any, like: object) -> Any:
    """A `Typed` template decides."""
    return like.hint if isinstance(like, Typed) else hint


def _type(like: object) -> type:
    return type(None) if isinstance(like, Typed) else type(like)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Field name -> hint, of a dataclass."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


@cache
def _options(hint: Any) -> tuple[Any, ...]:
    """What may stand here: the members of a union, or the one hint."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


@cache
def _dataclasses(hint: Any, like: type) -> list[type]:
    """Those that may stand here, as the hint says; where it says nothing, the template's."""
    named = [each for each in _options(hint) if isinstance(each, type) and is_dataclass(each)]
    return named or ([like] if is_dataclass(like) else [])


@cache
def _types(hint: Any) -> tuple[type, ...]:
    """The types that may stand here; () where the hint does not say."""
    allowed: list[type] = []
    for option in _options(hint):
        kind = get_origin(option) or option
        if not isinstance(kind, type) or not (kind in _NUMBERS or kind in _KINDS or is_dataclass(kind)):
            return ()
        allowed += (kind, *_NUMBERS.get(kind, ()))
    return tuple(allowed)


@cache
def _pair(hint: Any) -> tuple[Any, Any]:
    """Hints of a dict's keys and values."""
    for option in _options(hint):
        origin = get_origin(option)
        if isinstance(origin, type) and issubclass(dict, origin):
            return (*get_args(option), Any, Any)[:2]
    return Any, Any


@cache
def _each(hint: Any) -> tuple[Any, ...]:
    """Hints of the items of a list, tuple or set; (hint, ...) where all are alike."""
    for option in _options(hint):
        origin = get_origin(option)
        if origin is tuple:
            return get_args(option)
        if isinstance(origin, type) and any(issubclass(kind, origin) for kind in (list, set, frozenset)):
            return get_args(option)[0], ...
    return Any, ...


def _items(values: Any, hint: Any, like: object) -> Iterable[tuple[Any, Any, object]]:
    """(value, hint, example) for each item of a list, tuple or set."""
    kinds = _each(_hint(hint, like))
    if len(kinds) == 2 and kinds[1] is ...:
        example = next(iter(like), None) if isinstance(like, list | tuple | set | frozenset) else None
        return zip(values, repeat(kinds[0]), repeat(example), strict=False)
    return zip(values, kinds, repeat(None, len(kinds)), strict=True)


def _enumeration(hint: Any, like: Any) -> type[enum.Enum]:
    for option in _options(_hint(hint, like)):
        if isinstance(option, type) and issubclass(option, enum.Enum):
            return option
    return type(like)


def _why(value: object, allowed: Sequence[type]) -> str:
    got = f"{type(value).__module__}.{type(value).__qualname__}"
    if not is_dataclass(value):
        return f"it must be made of dataclasses, containers, arrays and numbers; got {got}"
    names = " or ".join(kind.__name__ for kind in allowed) or "a hint that names its dataclass"
    return f"its place must have {names}; got {got}"
