"""Tree aggregation: noise on prefix sums that grows with the logarithm of the steps.

Kairouz et al. 2021, arXiv:2103.00039 (DP-FTRL), with trees that restart. Every node of a binary tree over the steps
has noise of its own; a prefix of t steps is covered by one node for each binary digit 1 of t. Node (tree, level,
index) covers the steps index 2^level .. (index + 1) 2^level - 1 of its tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fedpace.vector import Vector

Node = tuple[int, int, int]


class TreeStep(NamedTuple):
    """A step: in which tree, and how many steps of it came before."""

    tree: int
    before: int


def cover(at: TreeStep) -> Iterator[Node]:
    """The nodes that cover the steps of a tree before this one."""
    start = 0
    for level in reversed(range(at.before.bit_length())):
        if at.before >> level & 1:
            yield at.tree, level, start >> level
            start += 1 << level


def increment(at: TreeStep, node: Callable[[int, int, int], Vector]) -> Vector:
    """Noise of the prefix that ends with this step, less that of the prefix before it."""
    old, new = set(cover(at)), set(cover(TreeStep(at.tree, at.before + 1)))
    [fresh] = new - old  # one node begins with every step
    total = node(*fresh).copy()
    for gone in sorted(old - new):
        total -= node(*gone)
    return total
