"""Decompression that ends in time: what comes out is bounded, however little goes in."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fedpace.errors import ConfigError

LIMIT_BYTES = 1 << 29  # of one file: three times the largest of any of these data sets
LIMIT_ARCHIVE_BYTES = 1 << 30  # of all files in a compressed archive together
BLOCK_BYTES = 1 << 20  # so much comes out at a time
CHUNK_BYTES = 1 << 16  # so much goes in
LIMIT_MEMORY_BYTES = 1 << 28  # what xz may ask for; `xz -9` asks for a quarter

BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError)

METHODS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, LIMIT_MEMORY_BYTES),
    ".lzma": lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE, LIMIT_MEMORY_BYTES),
    ".bz2": bz2.BZ2Decompressor,
    "deflate": lambda: zlib.decompressobj(wbits=-15),
}


def blocks(chunks: Iterable[bytes], method: str) -> Iterator[bytes]:
    """What the chunks hold, block by block, to the end of the compressed stream; as they are without a method."""
    if not method:
        yield from chunks
        return
    tool = METHODS[method]()
    for chunk in chunks:
        full = True
        while full and not tool.eof:
            block = tool.decompress(chunk, BLOCK_BYTES)
            yield block
            chunk = getattr(tool, "unconsumed_tail", b"")  # bz2 and xz keep the rest of a chunk themselves
            full = len(block) == BLOCK_BYTES


def chunks_of(content: bytes) -> Iterator[bytes]:
    return (content[low : low + CHUNK_BYTES] for low in range(0, len(content), CHUNK_BYTES))


def require_size(size: int, what: str, maximum: int) -> None:
    if size > maximum:
        raise ConfigError(f"{what} must hold at most {maximum:,} bytes; it holds more")


def decompressed(content: bytes, method: str, what: str = "a compressed file") -> bytes:
    """As much as can be decompressed: what is missing or damaged shows in the checksum of the result."""
    out = bytearray()
    try:
        for block in blocks(chunks_of(content), method):
            out += block
            require_size(len(out), what, LIMIT_BYTES)
    except BROKEN:
        return bytes(out)
    return bytes(out)


class Stream:
    """A compressed file as tarfile reads it: forward, a part at a time, and only so much of it."""

    def __init__(self, chunks: Iterable[bytes], method: str, what: str) -> None:
        self._blocks, self._what = blocks(chunks, method), what
        self._ready, self._given = b"", 0

    def read(self, size: int) -> bytes:
        """`size` bytes; fewer only at the end."""
        parts, ready = [self._ready], len(self._ready)
        while ready < size and (block := next(self._blocks, None)) is not None:
            parts.append(block)
            ready += len(block)
        whole = b"".join(parts)
        self._ready, self._given = whole[size:], self._given + min(size, ready)
        require_size(self._given, self._what, LIMIT_ARCHIVE_BYTES)
        return whole[:size]
