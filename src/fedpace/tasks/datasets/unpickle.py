"""CIFAR's python batches without an unpickler: the few opcodes they are written with, and nothing is ever called.

A batch is a dict of text, lists of numbers and text, and one array of bytes. The authors wrote it with Python 2 and
protocol 2; a file saved again was written with Python 3. Names of functions stay names: the ways in which
numpy writes an array of bytes are recognised by their shape, and the array is made here.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fedpace.errors import ConfigError

_NAMES = {
    "numpy.core.multiarray _reconstruct": "reconstruct",
    "numpy._core.multiarray _reconstruct": "reconstruct",
    "numpy.core.numeric _frombuffer": "from buffer",
    "numpy._core.numeric _frombuffer": "from buffer",
    "numpy ndarray": "array",
    "numpy dtype": "type",
    "_codecs encode": "encode",  # how Python 3 writes bytes at protocol 2
}
_MARK = object()
T = TypeVar("T")
_STATE_OF_BYTES = (3, "|", None, None, None, -1, -1, 0)  # what numpy says about its type of bytes


class _Refused(ValueError):
    """The pickle holds something that no batch has."""


@dataclass(frozen=True, slots=True)
class _Name:
    """A function or class that was named; never looked up."""

    meaning: str


@dataclass(frozen=True, slots=True)
class _Bytes:
    """numpy's type of single bytes, the only one there is in a batch."""


@dataclass(slots=True)
class _Array:
    """An array that numpy makes first and fills afterwards."""

    values: npt.NDArray[np.uint8] | None = None


def unpickle(content: bytes, what: str) -> Any:
    """The dict, list, array, text or number in a pickle of plain data."""
    try:
        return _Reader().read(content)
    except _Refused as error:
        raise ConfigError(f"{what} must be a pickle of plain data; it asks for {error}") from None
    except Exception as error:  # of the opcodes' arguments: whatever they are, they are wrong
        raise ConfigError(f"{what} is damaged ({type(error).__name__})") from None


class _Reader:
    """A stack, a memo, and one method for each thing that an opcode may do."""

    def __init__(self) -> None:
        self.stack: list[object] = []
        self.memo: dict[int, object] = {}

    def read(self, content: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(content):
            if opcode.name == "STOP":
                break
            if opcode.name not in _OPCODES:
                raise _Refused(f"opcode {opcode.name}")
            _OPCODES[opcode.name](self, argument)
        [value] = self.stack
        return _finished(value)

    def push(self, value: object) -> None:
        self.stack.append(value)

    def since_mark(self) -> list[object]:
        at = len(self.stack) - 1 - next(k for k, value in enumerate(reversed(self.stack)) if value is _MARK)
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def pop(self, count: int) -> list[object]:
        items = [self.stack.pop() for _ in range(count)]
        return items[::-1]

    def tuple_of(self, count: int) -> None:
        self.push(tuple(self.pop(count)))

    def extend(self, items: list[object]) -> None:
        _of(list, self.stack[-1]).extend(map(_finished, items))

    def update(self, items: list[object]) -> None:
        keys = [_of((bytes, str), key) for key in items[::2]]
        _of(dict, self.stack[-1]).update(zip(keys, map(_finished, items[1::2]), strict=True))

    def name(self, text: str) -> None:
        if text not in _NAMES:
            raise _Refused(ascii(text.replace(" ", ".")[:80])[1:-1])
        self.push(_Name(_NAMES[text]))

    def reduce(self) -> None:
        function, arguments = self.pop(2)
        meaning = _of(_Name, function).meaning
        if meaning not in _CALLS:
            raise _Refused(f"a call of {meaning}")
        self.push(_CALLS[meaning](*_of(tuple, arguments)))

    def build(self) -> None:
        made, state = self.pop(2)
        if isinstance(made, _Array):
            made.values = _filled(*_of(tuple, state)).values
        elif not isinstance(made, _Bytes) or _as_text(state) != _STATE_OF_BYTES:
            raise _Refused("a type other than bytes")
        self.push(made)


def _of(kind: type[T] | tuple[type[T], ...], value: object) -> T:
    if not isinstance(value, kind):
        raise _Refused(f"a {type(value).__name__} in a wrong place")
    return value


def _finished(value: object) -> object:
    """A value that may stand in a batch."""
    if isinstance(value, _Array) and value.values is not None:
        return value.values
    return _of((int, str, bytes, list, dict), value)


def _as_text(state: object) -> tuple[object, ...]:
    """Text that Python 2 wrote came as bytes."""
    return tuple(item.decode("latin-1") if isinstance(item, bytes) else item for item in _of(tuple, state))


# ------------------------------------------------------------ what numpy writes


def _reconstruct(kind: object, shape: object, code: object) -> _Array:
    if (kind, shape, _as_text((code,))) != (_Name("array"), (0,), ("b",)):
        raise _Refused("an array of another kind")
    return _Array()


def _type(code: object, align: object, copy: object) -> _Bytes:
    if _as_text((code,)) not in (("u1",), ("|u1",)):
        raise _Refused("a type other than bytes")
    return _Bytes()


def _encode(text: object, codec: object) -> bytes:
    encoded: bytes = _of(str, text).encode("latin-1")
    return encoded


def _filled(version: object, shape: object, kind: object, fortran: object, raw: object) -> _Array:
    return _from_buffer(raw, kind, shape, "F" if fortran else "C")


def _from_buffer(raw: object, kind: object, shape: object, order: object) -> _Array:
    lengths = [_of(int, length) for length in _of(tuple, shape)]
    values = raw if isinstance(raw, bytes) else _of(bytearray, raw)
    _of(_Bytes, kind)
    if order != "C" or len(lengths) not in (1, 2) or min(lengths) < 1 or math.prod(lengths) != len(values):
        raise _Refused("an array whose shape does not fit its bytes")
    return _Array(np.frombuffer(values, np.uint8).reshape(lengths))


_CALLS: dict[str, Callable[..., object]] = {
    "reconstruct": _reconstruct,
    "from buffer": _from_buffer,
    "type": _type,
    "encode": _encode,
}

_OPCODES: dict[str, Callable[[_Reader, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda reader, _: None),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1"), lambda reader, number: reader.push(number)),
    **dict.fromkeys(("BINUNICODE", "SHORT_BINUNICODE"), lambda reader, text: reader.push(text)),
    **dict.fromkeys(
        ("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), lambda reader, raw: reader.push(raw)
    ),
    # text of Python 2
    **dict.fromkeys(("BINSTRING", "SHORT_BINSTRING"), lambda reader, raw: reader.push(raw.encode("latin-1"))),
    "NONE": lambda reader, _: reader.push(None),
    "NEWTRUE": lambda reader, _: reader.push(True),
    "NEWFALSE": lambda reader, _: reader.push(False),
    "MARK": lambda reader, _: reader.push(_MARK),
    "EMPTY_DICT": lambda reader, _: reader.push({}),
    "EMPTY_LIST": lambda reader, _: reader.push([]),
    "EMPTY_TUPLE": lambda reader, _: reader.push(()),
    "TUPLE": lambda reader, _: reader.push(tuple(reader.since_mark())),
    "TUPLE1": lambda reader, _: reader.tuple_of(1),
    "TUPLE2": lambda reader, _: reader.tuple_of(2),
    "TUPLE3": lambda reader, _: reader.tuple_of(3),
    "APPEND": lambda reader, _: reader.extend(reader.pop(1)),
    "APPENDS": lambda reader, _: reader.extend(reader.since_mark()),
    "SETITEM": lambda reader, _: reader.update(reader.pop(2)),
    "SETITEMS": lambda reader, _: reader.update(reader.since_mark()),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), lambda reader, at: reader.memo.update({at: reader.stack[-1]})),
    "MEMOIZE": lambda reader, _: reader.memo.update({len(reader.memo): reader.stack[-1]}),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda reader, at: reader.push(reader.memo[at])),
    "GLOBAL": lambda reader, name: reader.name(name),
    "STACK_GLOBAL": lambda reader, _: reader.name(" ".join(_of(str, part) for part in reader.pop(2))),
    "REDUCE": lambda reader, _: reader.reduce(),
    "BUILD": lambda reader, _: reader.build(),
}
