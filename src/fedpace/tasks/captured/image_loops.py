"""What surrounds the matrix products that a convolution can be, for 16 channels at a time.

**Winograd's algorithm**, F(4x4, 3x3) of Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016,
arXiv:1509.09308: 36 products of matrices for 4x4 results of a 3x3 kernel, where direct sums have 144.

    Y = A' [ (G w G') * (B' d B) ] A        d: 6x6 values of an image, w: a kernel, Y: 4x4 results

The products * at each of 36 points, summed over channels, are matrix products: tiles by channels times channels by
channels. The way there and its adjoints for the way back:

    into_points  B' d B      tiles of 6x6 values, which overlap, to points
    from_points  A' m A      points to tiles of 4x4 results
    into_errors  A y A'      the adjoint of `from_points`
    from_errors  B m B'      the adjoint of `into_points`: what overlaps is added

Departures: none. Rounding errors are some ten times those of direct sums, up to 1e-5 of the largest value.

**Patches**: the values that one result is computed from, side by side (`into_patches`, and its adjoint `from_patches`).

Images are (samples, height, width, channels), points (36, tiles, channels), patches (results, taps, channels), all as
vectors. One file, because numba's cache on disk notices changes of a function's own file only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from fedpace.tasks.fast.compiled import Array, aligned, compiled, inlined

LANES = 16  # channels at a time
ROW, HALF = 6 * LANES, 36 * LANES  # of the scratch memory: one half is read, the other written
f32 = np.float32
ZERO, TWO, FOUR, FIVE, EIGHT = f32(0), f32(2), f32(4), f32(5), f32(8)

G = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
)
TAPS_TO_POINTS = np.kron(G, G).astype(f32)  # G w G' as a matrix product: 9 taps of a kernel to 36 points


class Images(NamedTuple):
    """Images inside `pad` rows and columns of zeros, and how many tiles lie below and beside each other."""

    samples: int
    high: int
    wide: int
    channels: int
    pad: int
    down: int
    across: int

    @property
    def tiles(self) -> int:
        return self.samples * self.down * self.across


def scratch() -> Array:
    return aligned(2 * HALF, f32)


def _vector(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), ir.VectorType(ir.FloatType(), LANES).as_pointer())


def _as_intrinsic(function: Callable[..., Any]) -> Callable[[Array, int, Array, int], None]:
    """For the type checker: called without the typing context."""
    marked: Callable[[Array, int, Array, int], None] = intrinsic(function)
    return marked


@_as_intrinsic
def _copy(typing: Any, target: Any, to: Any, source: Any, at: Any) -> Any:
    """target[to : to + LANES] = source[at : at + LANES] as vectors: numba would copy number after number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_vector(context, builder, signature.args[2], args[2], args[3]), align=4)
        builder.store(value, _vector(context, builder, signature.args[0], args[0], args[1]), align=4)
        return context.get_dummy_value()

    return types.void(target, to, source, at), generate


@_as_intrinsic
def _add(typing: Any, target: Any, to: Any, source: Any, at: Any) -> Any:
    """target[to : to + LANES] += source[at : at + LANES]"""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_vector(context, builder, signature.args[2], args[2], args[3]), align=4)
        place = _vector(context, builder, signature.args[0], args[0], args[1])
        builder.store(builder.fadd(builder.load(place, align=4), value), place, align=4)
        return context.get_dummy_value()

    return types.void(target, to, source, at), generate


@inlined
def _b_transposed(s: Array, at: int, to: int, step: int, lanes: int) -> None:
    """B' along one axis: six values, `step` numbers apart, to six."""
    for e in range(lanes):
        i, o = at + e, to + e
        d0, d1, d2 = s[i], s[i + step], s[i + 2 * step]
        d3, d4, d5 = s[i + 3 * step], s[i + 4 * step], s[i + 5 * step]
        s[o] = FOUR * d0 - FIVE * d2 + d4
        even, odd = d4 - FOUR * d2, d3 - FOUR * d1
        s[o + step], s[o + 2 * step] = even + odd, even - odd
        even, odd = d4 - d2, TWO * (d3 - d1)
        s[o + 3 * step], s[o + 4 * step] = even + odd, even - odd
        s[o + 5 * step] = FOUR * d1 - FIVE * d3 + d5


@inlined
def _b(s: Array, at: int, to: int, step: int, lanes: int) -> None:
    """B along one axis: six values to six."""
    for e in range(lanes):
        i, o = at + e, to + e
        m0, m5 = s[i], s[i + 5 * step]
        sum1, gap1 = s[i + step] + s[i + 2 * step], s[i + step] - s[i + 2 * step]
        sum2, gap2 = s[i + 3 * step] + s[i + 4 * step], s[i + 3 * step] - s[i + 4 * step]
        s[o] = FOUR * m0
        s[o + step] = FOUR * (m5 - gap1) - TWO * gap2
        s[o + 2 * step] = -FIVE * m0 - FOUR * sum1 - sum2
        s[o + 3 * step] = gap1 + TWO * gap2 - FIVE * m5
        s[o + 4 * step] = m0 + sum1 + sum2
        s[o + 5 * step] = m5


@inlined
def _a_transposed(s: Array, at: int, to: int, step: int, lanes: int) -> None:
    """A' along one axis: six values to four."""
    for e in range(lanes):
        i, o = at + e, to + e
        sum1, gap1 = s[i + step] + s[i + 2 * step], s[i + step] - s[i + 2 * step]
        sum2, gap2 = s[i + 3 * step] + s[i + 4 * step], s[i + 3 * step] - s[i + 4 * step]
        first, last = s[i], s[i + 5 * step]
        s[o] = first + sum1 + sum2
        s[o + step] = gap1 + TWO * gap2
        s[o + 2 * step] = sum1 + FOUR * sum2
        s[o + 3 * step] = gap1 + EIGHT * gap2 + last


@inlined
def _a(s: Array, at: int, to: int, step: int, lanes: int) -> None:
    """A along one axis: four values to six."""
    for e in range(lanes):
        i, o = at + e, to + e
        y0, y1, y2, y3 = s[i], s[i + step], s[i + 2 * step], s[i + 3 * step]
        s[o] = y0
        even, odd = y0 + y2, y1 + y3
        s[o + step], s[o + 2 * step] = even + odd, even - odd
        even, odd = y0 + FOUR * y2, TWO * y1 + EIGHT * y3
        s[o + 3 * step], s[o + 4 * step] = even + odd, even - odd
        s[o + 5 * step] = y3


@inlined
def _corner(of: Images, tile: int, stride: int) -> tuple[int, int, int]:
    """The image of a tile, and the row and column of its first value."""
    n, place = divmod(tile, of.down * of.across)
    return n, place // of.across * stride - of.pad, place % of.across * stride - of.pad


@inlined
def _place(of: Images, n: int, y: int, x: int) -> int:
    return ((n * of.high + y) * of.wide + x) * of.channels


@inlined
def _taken(image: Array, of: Images, tile: int, first: int, size: int, s: Array) -> None:
    """The values of a tile, zero outside of the image."""
    n, top, left = _corner(of, tile, 4)
    for i in range(size):
        for j in range(size):
            y, x, to = top + i, left + j, (i * size + j) * LANES
            if 0 <= y < of.high and 0 <= x < of.wide:
                _copy(s, to, image, _place(of, n, y, x) + first)
            else:
                for c in range(LANES):
                    s[to + c] = ZERO


@compiled
def into_points(image: Array, of: Images, points: Array, s: Array) -> None:
    tiles = of.samples * of.down * of.across
    for tile in range(tiles):
        for first in range(0, of.channels, LANES):
            _taken(image, of, tile, first, 6, s)
            _b_transposed(s, 0, HALF, ROW, ROW)
            for i in range(6):
                _b_transposed(s, HALF + i * ROW, i * ROW, LANES, LANES)
            for p in range(36):
                _copy(points, (p * tiles + tile) * of.channels + first, s, p * LANES)


@compiled
def into_errors(image: Array, of: Images, points: Array, s: Array) -> None:
    tiles = of.samples * of.down * of.across
    for tile in range(tiles):
        for first in range(0, of.channels, LANES):
            _taken(image, of, tile, first, 4, s)
            _a(s, 0, HALF, 4 * LANES, 4 * LANES)
            for i in range(6):
                _a(s, HALF + i * 4 * LANES, i * ROW, LANES, LANES)
            for p in range(36):
                _copy(points, (p * tiles + tile) * of.channels + first, s, p * LANES)


@compiled
def from_points(points: Array, of: Images, bias: Array, image: Array, s: Array) -> None:
    """`bias` has a number for every channel, or none at all."""
    tiles = of.samples * of.down * of.across
    for tile in range(tiles):
        n, top, left = _corner(of, tile, 4)
        for first in range(0, of.channels, LANES):
            for p in range(36):
                _copy(s, p * LANES, points, (p * tiles + tile) * of.channels + first)
            _a_transposed(s, 0, HALF, ROW, ROW)
            for i in range(4):
                _a_transposed(s, HALF + i * ROW, i * 4 * LANES, LANES, LANES)
            for i in range(min(4, of.high - top)):
                for j in range(min(4, of.wide - left)):
                    if bias.size:
                        _add(s, (i * 4 + j) * LANES, bias, first)
                    _copy(image, _place(of, n, top + i, left + j) + first, s, (i * 4 + j) * LANES)


@compiled
def from_errors(points: Array, of: Images, image: Array, s: Array) -> None:
    image[:] = ZERO
    tiles = of.samples * of.down * of.across
    for tile in range(tiles):
        n, top, left = _corner(of, tile, 4)
        for first in range(0, of.channels, LANES):
            for p in range(36):
                _copy(s, p * LANES, points, (p * tiles + tile) * of.channels + first)
            _b(s, 0, HALF, ROW, ROW)
            for i in range(6):
                _b(s, HALF + i * ROW, i * ROW, LANES, LANES)
            for i in range(max(0, -top), min(6, of.high - top)):
                for j in range(max(0, -left), min(6, of.wide - left)):
                    _add(image, _place(of, n, top + i, left + j) + first, s, (i * 6 + j) * LANES)


@inlined
def _inside(of: Images, left: int, size: int) -> tuple[int, int]:
    """Of `size` pixels from `left` on, the first and the one after the last that lie in the image."""
    return max(0, -left), max(0, min(size, of.wide - left))


@compiled
def into_patches(image: Array, of: Images, size: int, stride: int, patches: Array) -> None:
    """Of images whose results lie `of.down` below and `of.across` beside each other, for kernels of `size` x `size`."""
    to, row = 0, size * of.channels
    for line in range(of.samples * of.down):
        n, top = line // of.down, line % of.down * stride - of.pad
        for left in range(-of.pad, of.across * stride - of.pad, stride):
            begin, end = _inside(of, left, size)
            for y in range(top, top + size):
                if 0 <= y < of.high and end - begin == size:
                    for e in range(0, row, LANES):
                        _copy(patches, to + e, image, _place(of, n, y, left) + e)
                else:
                    patches[to : to + row] = ZERO
                    for e in range(begin * of.channels, end * of.channels if 0 <= y < of.high else 0, LANES):
                        _copy(patches, to + e, image, _place(of, n, y, left) + e)
                to += row


@compiled
def from_patches(patches: Array, of: Images, size: int, stride: int, image: Array) -> None:
    image[:] = ZERO
    at, row = 0, size * of.channels
    for line in range(of.samples * of.down):
        n, top = line // of.down, line % of.down * stride - of.pad
        for left in range(-of.pad, of.across * stride - of.pad, stride):
            begin, end = _inside(of, left, size)
            for y in range(top, top + size):
                if 0 <= y < of.high:
                    for e in range(begin * of.channels, end * of.channels, LANES):
                        _add(image, _place(of, n, y, left) + e, patches, at + e)
                at += row
