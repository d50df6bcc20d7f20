"""The files in a zip archive, decompressed within bounds; zipfile itself reads the table of contents only."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from fedpace.errors import ConfigError
from fedpace.tasks.datasets import bounded

_METHODS = {zipfile.ZIP_STORED: "", zipfile.ZIP_DEFLATED: "deflate", zipfile.ZIP_BZIP2: ".bz2"}
_HEAD = struct.Struct("<4s22xHH")  # what lies before a file: ..., lengths of its name and of the extra field
_ENCRYPTED, _HAS_END_MARK = 1 << 0, 1 << 1
DAMAGED = (*bounded.BROKEN, zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, IndexError)


def members(file: BinaryIO) -> dict[str, zipfile.ZipInfo]:
    """What the archive says it has, by name."""
    with zipfile.ZipFile(file) as archive:
        return {info.filename: info for info in archive.infolist() if not info.is_dir()}


def read(file: BinaryIO, info: zipfile.ZipInfo, what: str) -> bytes:
    """The content of one of them; ConfigError unless it is as long as it was said to be, and has its checksum."""
    if info.flag_bits & _ENCRYPTED:
        raise ConfigError(f"{what} must not be encrypted; it is")
    bounded.require_size(max(info.file_size, info.compress_size), what, bounded.LIMIT_BYTES)
    out = bytearray()
    for block in _blocks(_raw(file, info), info, what):
        out += block
        if len(out) > info.file_size:
            break
    if len(out) != info.file_size or zlib.crc32(out) != info.CRC:
        raise ConfigError(f"{what} is damaged (its checksum does not match)")
    return bytes(out)


def _raw(file: BinaryIO, info: zipfile.ZipInfo) -> bytes:
    file.seek(info.header_offset)
    signature, name_bytes, extra_bytes = _HEAD.unpack(file.read(_HEAD.size))
    if signature != b"PK\3\4":
        raise zipfile.BadZipFile("a file is not where it should be")
    file.seek(info.header_offset + _HEAD.size + name_bytes + extra_bytes)
    return file.read(info.compress_size)


def _blocks(raw: bytes, info: zipfile.ZipInfo, what: str) -> Iterator[bytes]:
    if info.compress_type == zipfile.ZIP_LZMA:
        return bounded.blocks(bounded.chunks_of(_as_lzma_file(raw, info)), ".lzma")
    if info.compress_type not in _METHODS:
        raise ConfigError(f"{what} must be stored or compressed by deflate, bzip2 or lzma; it is not")
    return bounded.blocks(bounded.chunks_of(raw), _METHODS[info.compress_type])


def _as_lzma_file(raw: bytes, info: zipfile.ZipInfo) -> bytes:
    """zip writes two version bytes, the length of the properties (5), these and the data."""
    if raw[2:4] != b"\5\0":
        raise lzma.LZMAError("the properties of LZMA must have 5 bytes")
    size = -1 if info.flag_bits & _HAS_END_MARK else info.file_size
    return raw[4:9] + size.to_bytes(8, "little", signed=True) + raw[9:]
