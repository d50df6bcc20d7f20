"""CRC-32, the numbers of `zlib.crc32`: by Intel's ISA-L, which reads faster than memory copies.

`isal` has wheels for x86-64 and 64-bit ARM. Elsewhere installing it would need a compiler and an assembler, so
it is not asked for there (pyproject.toml), and zlib gives the same numbers at a tenth of the speed.
"""

from __future__ import annotations

from zlib import crc32 as zlib_crc32

__all__ = ["combine", "crc32", "crc32_combine"]


def combine(first: int, second: int, length: int) -> int:
    """The CRC of two pieces from their own; the second has `length` bytes.

    Going on from `first` over any bytes is going on from 0 over them, plus what `first` becomes over zeros.
    """
    zeros = bytes(length)
    return second ^ zlib_crc32(zeros, first) ^ zlib_crc32(zeros)


try:
    from isal.isal_zlib import crc32, crc32_combine
except ImportError:
    crc32, crc32_combine = zlib_crc32, combine
