"""The parameters of a convolutional network in the order in which its solver works on them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedpace.tasks.fast.compiled import LINE_BYTES, Array
from fedpace.tasks.fast.convolution import Stage
from fedpace.vector import Vector

Form = tuple[tuple[int, ...], tuple[int, ...]]  # shape, and its axes in our order


@dataclass(frozen=True, slots=True)
class Piece:
    """One tensor: its place and shape in torch's order, the axes as we order them, and its place in ours."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    theirs: int
    ours: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def in_theirs(self, vector: Tensor) -> Tensor:
        return vector[self.theirs : self.theirs + self.size].view(self.shape).permute(self.axes)

    def in_ours(self, vector: Tensor) -> Tensor:
        shape = [self.shape[axis] for axis in self.axes]
        return vector[self.ours : self.ours + self.size].view(shape)


class OwnOrder:
    """Channels last, filters of the first stage side by side, layers beginning with a cache line each.

    The gaps between layers are zero and stay zero under every local rule, which works entry by entry.
    """

    def __init__(self, stages: Sequence[Stage], widths: Sequence[int], dtype: np.dtype[np.floating]):
        self.dtype = np.dtype(dtype)
        self.pieces: list[Piece] = []
        theirs = ours = 0
        for group in _groups(stages, widths):
            for shape, axes in group:
                self.pieces.append(Piece(shape, axes, theirs, ours))
                theirs, ours = theirs + math.prod(shape), ours + math.prod(shape)
            ours += -ours % (LINE_BYTES // self.dtype.itemsize)
        self.size, self.given_size = ours, theirs

    def take(self, v: Vector, into: Array) -> None:
        """A vector in torch's order, in ours."""
        mine, given = torch.from_numpy(into), torch.from_numpy(np.array(v, self.dtype))
        mine.zero_()
        for piece in self.pieces:
            piece.in_ours(mine).copy_(piece.in_theirs(given))

    def give(self, vector: Array) -> Vector:
        """A vector in our order, in torch's."""
        out = np.empty(self.given_size, self.dtype)
        mine, given = torch.from_numpy(vector), torch.from_numpy(out)
        for piece in self.pieces:
            piece.in_theirs(given).copy_(piece.in_ours(mine))
        return out


def _groups(stages: Sequence[Stage], widths: Sequence[int]) -> Iterator[list[Form]]:
    """Shape and order of axes of every tensor; what is in one group lies together."""
    for s in stages:
        if s.first:
            yield [((s.filters, s.taps), (1, 0))]
        else:
            yield [((s.filters, s.channels, s.kernel, s.kernel), (0, 2, 3, 1))]
        yield [((s.filters,), (0,))]
    last = stages[-1]
    yield [((widths[1], last.filters, *last.pooled), (0, 2, 3, 1)), ((widths[1],), (0,))]
    for inner, outer in zip(widths[1:], widths[2:], strict=False):
        yield [((outer, inner), (0, 1)), ((outer,), (0,))]
