"""Model versions that a device holds: each is copied there once, as long as someone may still ask for it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from fedpace.vector import Vector

FEWEST = 2  # however large they are: that of a session, and that of an evaluation


@dataclass(frozen=True, slots=True)
class HeldModel:
    vector: weakref.ref[Vector]  # in main memory; without it nobody can ask for the copy
    copy: Tensor


class HeldModels:
    """Copies by the identity of vectors that cannot be written to, the last used ones as far as there is room."""

    def __init__(self) -> None:
        self._held: dict[int, HeldModel] = {}

    def __len__(self) -> int:
        return len(self._held)

    def get(self, x: Vector, upload: Callable[[Vector], Tensor], room: Callable[[], int]) -> Tensor:
        """The copy of `x`, which `upload` makes if it is new; all of them take at most `room()` bytes, or are two."""
        if x.flags.writeable:  # it may be another model the next time
            return upload(x)
        found = self._held.pop(id(x), None)
        if found is None or found.vector() is not x:
            self._forget_the_dead()
            found = HeldModel(weakref.ref(x), upload(x))
        self._held[id(x)] = found
        while len(self) > FEWEST and self._bytes() > room():
            del self._held[next(iter(self._held))]
        return found.copy

    def _forget_the_dead(self) -> None:
        self._held = {key: each for key, each in self._held.items() if each.vector() is not None}

    def _bytes(self) -> int:
        return sum(each.copy.nbytes for each in self._held.values())
