"""Which positions are sent: ascending indices below d in four encodings, the smallest by default.

0 u32      four bytes each
1 bitmask  one bit per entry of the vector, first entry in bit 7
2 varint   gaps g_0 = i_0, g_j = i_j - i_{j-1} - 1, LEB128
3 rice     the same gaps: (g >> p) ones, a zero, p low bits; p travels in the header's aux byte
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fedpace.errors import FrameError, require

Indices = npt.NDArray[np.signedinteger]
Numbers = npt.NDArray[np.integer]  # gaps, or others that are not negative
Block = npt.NDArray[np.uint8]

NAMES = ("u32", "bitmask", "varint", "rice")
U32, BITMASK, VARINT, RICE = range(4)
MAX_RICE = 31


def index_type(size: int) -> np.dtype[np.signedinteger]:
    """For positions in a vector of `size` entries: four bytes where they do, since there may be as many as entries."""
    return np.dtype(np.int32 if size <= np.iinfo(np.int32).max else np.int64)


def require_index(name: str, what: str) -> None:
    require(name == "auto" or name in NAMES, what, name, f"'auto' or one of {', '.join(NAMES)}")


def write(indices: Indices, size: int, name: str = "auto") -> tuple[Block, int, int]:
    """(index block, index codec, aux). `indices` ascend strictly and lie in [0, size)."""
    gaps = gaps_of(indices)
    p = best_rice(gaps, size)
    codec = smallest(gaps, size, p) if name == "auto" else NAMES.index(name)
    if codec == RICE:
        return write_rice(gaps, p), codec, p
    return (_write_u32, _write_bitmask, write_varint)[codec](indices, gaps, size), codec, 0


def gaps_of(indices: Indices) -> Indices:
    """g_0 = i_0, g_j = i_j - i_{j-1} - 1."""
    gaps = indices.copy()
    gaps[1:] -= indices[:-1]
    gaps[1:] -= 1
    return gaps


def read(block: Block, codec: int, aux: int, count: int, size: int) -> Indices:
    """The `count` indices that fill this block exactly; the caller has bounded `count` by bytes received."""
    if aux and codec != RICE:
        raise FrameError(f"an index block in {NAMES[codec]} has aux 0; got {aux}")
    if count > size:
        raise FrameError(f"at most {size} indices exist; got {count}")
    if codec == RICE:
        return _read_rice(block, aux, count, size)
    return (_read_u32, _read_bitmask, _read_varint)[codec](block, count, size)


def smallest(gaps: Indices, size: int, p: int) -> int:
    """The index codec whose block is smallest; among equals the one that is quickest to read."""
    lengths = (4 * gaps.size, (size + 7) // 8, varint_bytes(gaps), (rice_bits(gaps, p) + 7) // 8)
    return min(range(4), key=lengths.__getitem__)


# ---------------------------------------------------------------- u32


def _write_u32(indices: Indices, gaps: Indices, size: int) -> Block:
    return indices.astype("<u4").view(np.uint8)


def _read_u32(block: Block, count: int, size: int) -> Indices:
    if block.size != 4 * count:
        raise FrameError(f"{count} u32 indices take {4 * count} bytes; got {block.size}")
    sent = block.view("<u4")
    if count and (sent[-1] >= size or (sent[1:] <= sent[:-1]).any()):
        raise FrameError(f"indices must ascend strictly and stay below {size}")
    return sent.astype(index_type(size))


# ---------------------------------------------------------------- bitmask


def _write_bitmask(indices: Indices, gaps: Indices, size: int) -> Block:
    from fedpace.link.codecs import kernels

    mask = np.zeros(size, bool)
    kernels.mark(mask, indices)
    return np.packbits(mask)


def _read_bitmask(block: Block, count: int, size: int) -> Indices:
    if block.size != (size + 7) // 8:
        raise FrameError(f"a mask of {size} bits takes {(size + 7) // 8} bytes; got {block.size}")
    from fedpace.link.codecs import kernels

    bits = np.unpackbits(block)
    marked = int(np.count_nonzero(bits))
    if marked != count or bits[size:].any():
        raise FrameError(f"the mask must mark {count} of {size} entries; it marks {marked}")
    indices = np.empty(count + 1, index_type(size))
    kernels.find_marked(bits, indices)
    return indices[:-1]


# ---------------------------------------------------------------- varint


def varint_bytes(gaps: Indices) -> int:
    return gaps.size + sum(int(np.count_nonzero(gaps >= 1 << bits)) for bits in (7, 14, 21, 28))


def write_varint(indices: Indices, gaps: Indices, size: int) -> Block:
    from fedpace.link.codecs import kernels

    out = np.empty(varint_bytes(gaps), np.uint8)
    kernels.varint_write(gaps, out)
    return out


def _read_varint(block: Block, count: int, size: int) -> Indices:
    from fedpace.link.codecs import kernels

    indices = np.empty(count, index_type(size))
    if kernels.varint_read(block, size, indices) != block.size:
        raise FrameError(f"the bytes are not {count} shortest varint gaps within {size} entries")
    return indices


# ---------------------------------------------------------------- Rice


def rice_bits(gaps: Numbers, p: int) -> int:
    from fedpace.link.codecs import kernels

    return int(kernels.sum_shifted(gaps, p)) + gaps.size * (1 + p)


def usual_rice(count: int, size: int) -> int:
    """p = floor(log2(ln 2 (d - k) / k)): the best for independent positions, give or take one."""
    mean_gap = (size - count) / max(count, 1)
    return max(0, math.floor(math.log2(max(math.log(2) * mean_gap, 1.0))))


def best_rice(gaps: Indices, size: int) -> int:
    usual = usual_rice(gaps.size, size)
    nearby = range(max(0, usual - 1), min(usual + 1, MAX_RICE) + 1)
    return min(nearby, key=lambda p: rice_bits(gaps, p))


def write_rice(gaps: Numbers, p: int) -> Block:
    from fedpace.link.codecs import kernels

    out = np.zeros((rice_bits(gaps, p) + 7) // 8, np.uint8)
    kernels.rice_write(gaps, p, out)
    return out


def _read_rice(block: Block, p: int, count: int, size: int) -> Indices:
    from fedpace.link.codecs import kernels

    if p > MAX_RICE:
        raise FrameError(f"a Rice parameter is at most {MAX_RICE}; got {p}")
    indices = np.empty(count, index_type(size))
    bits = kernels.rice_read(block, p, size, indices)
    spare = block.size * 8 - bits
    if bits < 0 or spare > 7 or (spare and block[-1] & ((1 << spare) - 1)):
        raise FrameError(f"the bytes are not {count} Rice gaps (p = {p}) within {size} entries")
    return indices
