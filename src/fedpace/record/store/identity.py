"""What makes a run this experiment and no other."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType

from fedpace.compute.protocol import Task
from fedpace.vector import Vector

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of objects without a repr of their own


def identity(
    algorithm: object,
    task: Task,
    population: object,
    seed: int,
    initial: Vector | None = None,
    **more: object,
) -> dict[str, str]:
    """The experiment in text: equal texts, equal results. `more`: other options that decide the outcome.

    `initial`: the model before training, where the caller has it.
    """
    own = own_code(algorithm)
    return {
        "algorithm": described(algorithm),
        **({"code of own rules": own} if own else {}),
        "task": described(task),
        "clients": str(task.clients),
        "initial model": _checksum(task.initial(seed) if initial is None else initial),
        "population": described(population),
        "seed": str(seed),
        **{name.replace("_", " "): described(value) for name, value in more.items()},
    }


def described(value: object) -> str:
    """`repr` without the addresses of objects that have none of their own."""
    return _ADDRESS.sub("", repr(value))


def own_code(algorithm: object) -> str:
    """A digest of the code of rules from elsewhere, so that one that was edited is another; empty if there are none."""
    classes = dict.fromkeys(_foreign(algorithm))
    texts = [
        f"{kind.__qualname__}.{name} {_code(function.__code__)}"
        for kind in classes
        for name, function in vars(kind).items()
        if isinstance(function, FunctionType)
    ]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] if texts else ""


def _foreign(value: object) -> Iterator[type]:
    """Classes of rules inside a value that are not fedpace's own."""
    for kind in type(value).__mro__:
        if kind.__module__.partition(".")[0] not in ("fedpace", "builtins", "typing", "abc", "numpy"):
            yield kind
    if is_dataclass(value):
        for each in fields(value):
            yield from _foreign(getattr(value, each.name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _foreign(item)


def _code(code: CodeType) -> str:
    inner = [_code(const) if isinstance(const, CodeType) else repr(const) for const in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {inner}"


def fingerprint(about: dict[str, str]) -> str:
    """The experiment in 32 letters."""
    text = "\0".join(f"{name}={about[name]}" for name in sorted(about))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _checksum(x: Vector) -> str:
    return f"{x.size} {x.dtype.name} {hashlib.sha256(x.tobytes()).hexdigest()[:16]}"
