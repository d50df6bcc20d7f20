"""Files by name, wherever they lie: in a folder, in a tar or zip archive, or alone; compressed or not."""

from __future__ import annotations

import bz2
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from fedpace.errors import ConfigError

LIMIT_BYTES = 1 << 30  # no file of these data sets comes near it: a guard against decompression bombs
LIMIT_FOLDERS = 100  # how many folders of a tree are looked into

BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)

Read = Callable[[], bytes]


class Files(Mapping[str, bytes]):
    """Contents by file name, without folder and without .gz, .bz2 and .xz; read when asked for."""

    def __init__(self, where: Path, readers: Mapping[str, Read]):
        self.where = where
        self.single = where.is_file() and len(readers) == 1  # a file that was named by itself
        self._readers = {plain(name): _decompressing(name, read) for name, read in readers.items()}

    def __getitem__(self, name: str) -> bytes:
        return self._readers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def candidates(path: Path) -> Iterator[Files]:
    """The places in which a data set said to be at `path` may lie, nearest first.

    A folder and the folders in it; an archive; a file, and the folder it is in.
    """
    if not path.exists():
        raise ConfigError(f"{path} must be a file or a folder; there is none")
    if path.is_dir():
        inside = sorted(entry for entry in path.rglob("*") if entry.is_dir())
        yield from map(folder, (path, *islice(inside, LIMIT_FOLDERS)))
        return
    yield _archive(path) or Files(path, {path.name: path.read_bytes})
    yield folder(path.parent)


def folder(path: Path) -> Files:
    """The files directly in a folder."""
    found = [entry for entry in sorted(path.iterdir()) if entry.is_file()]
    return Files(path, {entry.name: entry.read_bytes for entry in found})


def _archive(path: Path) -> Files | None:
    try:
        if tarfile.is_tarfile(path):
            return _tar(path)
        if zipfile.is_zipfile(path) and path.suffix != ".npz":
            return _zip(path)
    except BROKEN as error:
        raise ConfigError(f"{path} is damaged ({error})") from None
    return None


def _tar(path: Path) -> Files:
    with tarfile.open(path) as archive:
        names = [member.name for member in archive.getmembers() if member.isfile()]
    return Files(path, {Path(name).name: partial(_from_tar, path, name) for name in names})


def _from_tar(path: Path, name: str) -> bytes:
    with tarfile.open(path) as archive:
        member = archive.extractfile(name)
        return b"" if member is None else member.read(LIMIT_BYTES)


def _zip(path: Path) -> Files:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    return Files(path, {Path(name).name: partial(_from_zip, path, name) for name in names})


def _from_zip(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive, archive.open(name) as member:
        return member.read(LIMIT_BYTES)


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".xz": lzma.LZMADecompressor,
    ".bz2": bz2.BZ2Decompressor,
}


def plain(name: str) -> str:
    """`name` without the suffix of a compression."""
    return Path(name).stem if Path(name).suffix in _DECOMPRESSORS else name


def _decompressing(name: str, read: Read) -> Read:
    suffix = Path(name).suffix
    return (lambda: decompressed(read(), suffix)) if suffix in _DECOMPRESSORS else read


def decompressed(content: bytes, suffix: str) -> bytes:
    """As much as can be decompressed: what is missing or damaged shows in the checksum of the result."""
    tool, out = _DECOMPRESSORS[suffix](), bytearray()
    for low in range(0, len(content), 1 << 16):
        try:
            out += tool.decompress(content[low : low + (1 << 16)])
        except BROKEN:
            break
        if len(out) > LIMIT_BYTES:
            break
    return bytes(out)
