"""What makes a run this experiment and no other."""

from __future__ import annotations

import hashlib
import re

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
    return {
        "algorithm": described(algorithm),
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


def fingerprint(about: dict[str, str]) -> str:
    """The experiment in 32 letters."""
    text = "\0".join(f"{name}={about[name]}" for name in sorted(about))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _checksum(x: Vector) -> str:
    return f"{x.size} {x.dtype.name} {hashlib.sha256(x.tobytes()).hexdigest()[:16]}"
