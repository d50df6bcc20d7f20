"""Flat or per tensor: the groups of entries that a codec treats one by one."""

from __future__ import annotations

import math
from dataclasses import Field, replace
from typing import Any, ClassVar, Self

from fedpace.errors import require, require_number
from fedpace.vector import Layout

Groups = tuple[int, ...]  # sizes of the tensors; () is one group, the whole vector


class PerTensor:
    """What codecs share that treat one tensor after another once they are bound to a layout."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # it is mixed into dataclasses that have `groups`
    groups: Groups

    def bind(self, layout: Layout) -> Self:
        return replace(self, groups=of(layout))

    def _sizes(self, size: int) -> Groups:
        return sizes(self.groups, size, type(self).__name__)


def require_ratio(ratio: object, what: str) -> None:
    require_number(ratio, what, above=0, high=1, allowed="in (0, 1]")


def of(layout: Layout) -> Groups:
    return tuple(size for size in layout.sizes if size)


def sizes(groups: Groups, size: int, whose: str) -> Groups:
    """The sizes of the groups of a vector of `size` entries."""
    require(not groups or sum(groups) == size, f"{whose}: a vector's size", size, f"{sum(groups)}, as bound")
    return groups or (size,)


def bounds(groups: Groups) -> list[int]:
    """Where each group begins, and the end."""
    at = [0]
    for size in groups:
        at.append(at[-1] + size)
    return at


def kept(ratio: float, size: int) -> int:
    """k = max(1, ceil(ratio d)); a product that is whole but for rounding is not rounded up."""
    return min(size, max(1, math.ceil(round(ratio * size, 9))))


def counts(ratio: float, sizes: Groups) -> Groups:
    """k of every group."""
    return tuple(kept(ratio, size) for size in sizes)


def least_kept(ratio: float, sizes: Groups) -> float:
    """The smallest k/d of any group."""
    return min((kept(ratio, size) / size for size in sizes if size), default=1.0)
