"""A segment of the journal: one file of records, only ever appended to.

    0       4     magic "fpj\\x01"
    4       4     CRC-32 of the rest of the header
    8       16    run id
    24      8     position of the first record: how many came before it, in all segments
    32      ...   records: u32 length, u32 CRC-32, bytes          little endian throughout

The check word of a record continues that of the record before, from the header on: records that are changed, left out
or put elsewhere do not match. What follows the last record that matches is a torn tail: it was being written when the
machine stopped, and nothing that followed from it has left.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from fedpace.deploy.transport import Buffer
from fedpace.link.wire.crc import crc32

MAGIC = b"fpj\x01"
_HEADER = struct.Struct("<4sI16sQ")
_RECORD = struct.Struct("<II")


def header(run: bytes, first: int) -> bytes:
    rest = _HEADER.pack(MAGIC, 0, run, first)[8:]
    return MAGIC + crc32(rest).to_bytes(4, "little") + rest


@dataclass(slots=True)
class SegmentWriter:
    """Records as they are written, one after another."""

    word: int  # of the last record
    parts: list[Buffer] = field(default_factory=list)  # not yet in the file
    size: int = 0

    def add(self, head: bytes, body: Buffer) -> None:
        length = len(head) + len(body)
        self.word = crc32(body, crc32(head, crc32(length.to_bytes(4, "little"), self.word)))
        self.parts += [_RECORD.pack(length, self.word) + head, body]
        self.size += _RECORD.size + length

    def taken(self) -> list[Buffer]:
        parts, self.parts, self.size = self.parts, [], 0
        return parts


@dataclass(frozen=True, slots=True)
class Contents:
    """What a segment holds. `sound` is the number of its bytes that match; None: it has no header of this run."""

    first: int
    records: list[memoryview]
    sound: int | None
    size: int

    @property
    def end(self) -> int:
        """The position after its last record."""
        return self.first + len(self.records)

    @property
    def torn(self) -> bool:
        return self.sound != self.size


def read(data: bytes, run: bytes) -> Contents:
    if len(data) < _HEADER.size:
        return Contents(0, [], None, len(data))
    magic, word, found, first = _HEADER.unpack_from(data)
    if magic != MAGIC or word != crc32(data[8 : _HEADER.size]) or found != run:
        return Contents(0, [], None, len(data))
    records, sound = [], _HEADER.size
    for record, end in _records(memoryview(data), word):
        records.append(record)
        sound = end
    return Contents(first, records, sound, len(data))


def _records(data: memoryview, word: int) -> Iterator[tuple[memoryview, int]]:
    at = _HEADER.size
    while at + _RECORD.size <= len(data):
        length, expected = _RECORD.unpack_from(data, at)
        body = data[at + _RECORD.size : at + _RECORD.size + length]
        word = crc32(body, crc32(length.to_bytes(4, "little"), word))
        if len(body) != length or word != expected:
            return
        at += _RECORD.size + length
        yield body, at


def first_word(head: bytes) -> int:
    """The check word that the first record continues."""
    return int.from_bytes(head[4:8], "little")
