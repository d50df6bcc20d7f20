"""The tensors of a module beside those that were trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

from fedpace.compute.protocol import Task
from fedpace.vector import Vector

Arrays = Mapping[str, npt.NDArray[Any]]


class OtherTensors:
    """Statistics of normalisers, other buffers, frozen parameters, second names of tied ones: by name.

    Made when first asked for, since statistics take a pass over data; pickled as what they are then.
    """

    def __init__(self, make: Callable[[], Arrays]) -> None:
        self._make = make
        self._made: Arrays | None = None

    @classmethod
    def of(cls, task: Task, x: Vector, *, evaluated: bool) -> OtherTensors:
        """Those that go with the model `x`; of one that was evaluated just now, the very same statistics."""
        make: Callable[[Vector], Arrays] | None = getattr(task, "other_tensors", None)
        if make is None:
            return NONE
        made = make(x) if evaluated else None
        return cls(lambda: make(x)) if made is None else known(made)

    def __call__(self) -> Arrays:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __reduce__(self) -> tuple[Any, ...]:
        return known, (dict(self()),)


def known(arrays: Arrays) -> OtherTensors:
    return OtherTensors(lambda: arrays)


NONE = known({})
