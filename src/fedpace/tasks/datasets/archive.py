"""Files by name, wherever they lie: in a folder, in a tar or zip archive, or alone; compressed or not."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

from fedpace.errors import ConfigError
from fedpace.tasks.datasets import bounded, zipped
from fedpace.tasks.datasets.bounded import decompressed
from fedpace.untrusted import open_regular, read_regular

LIMIT_FOLDERS = 100  # how many folders of a tree are looked into
LIMIT_MEMBERS = 10_000  # how many files an archive may have

BROKEN = (*zipped.DAMAGED, tarfile.TarError)

Read = Callable[[], bytes]

_SUFFIXES = (".gz", ".xz", ".bz2")
_BEGINNINGS = {b"\x1f\x8b": ".gz", b"BZ": ".bz2", b"\xfd7": ".xz"}


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
    if path.is_dir():
        inside = sorted(entry for entry in path.rglob("*") if entry.is_dir())
        yield from map(folder, (path, *islice(inside, LIMIT_FOLDERS)))
        return
    if not path.is_file():
        found = "a pipe or a device" if path.exists() else "none"
        raise ConfigError(f"{path} must be a file or a folder; there is {found}")
    yield _archive(path) or Files(path, {path.name: _reader(path)})
    yield folder(path.parent)


def folder(path: Path) -> Files:
    """The files directly in a folder."""
    found = [entry for entry in sorted(path.iterdir()) if entry.is_file()]
    return Files(path, {entry.name: _reader(entry) for entry in found})


def _reader(path: Path) -> Read:
    return partial(read_regular, path, bounded.LIMIT_BYTES)


def _archive(path: Path) -> Files | None:
    try:
        names = _tar_names(path)
        if names is not None:
            return Files(path, {name: partial(_from_tar, path, at) for at, name in names.items()})
        if zipfile.is_zipfile(path) and path.suffix != ".npz":
            return _zip(path)
    except BROKEN as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path} is damaged ({error})") from None
    return None


# ------------------------------------------------------------ tar


@contextmanager
def _members(path: Path) -> Iterator[Iterator[tuple[int, tarfile.TarFile, tarfile.TarInfo]]]:
    """The members of a tar, one after another, each to be read before the next."""
    with open_regular(path) as file:
        method = _BEGINNINGS.get(file.read(2), "")
        file.seek(0)
        stream = bounded.Stream(iter(partial(file.read, bounded.CHUNK_BYTES), b""), method, str(path))
        with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|", bufsize=bounded.BLOCK_BYTES) as archive:
            yield ((at, archive, member) for at, member in enumerate(archive))


def _tar_names(path: Path) -> dict[int, str] | None:
    """Name by place in the archive; None if the file is no tar."""
    names: dict[int, str] = {}
    try:
        with _members(path) as members:
            for at, _, member in members:
                if at >= LIMIT_MEMBERS:
                    raise ConfigError(f"{path} must have at most {LIMIT_MEMBERS:,} files; it has more")
                if member.isreg() and not member.issparse():
                    names[at] = Path(member.name).name
    except tarfile.ReadError:
        if names:
            raise
        return None
    return names


def _from_tar(path: Path, place: int) -> bytes:
    with _members(path) as members:
        _, archive, member = next(islice(members, place, None))
        bounded.require_size(member.size, f"{path} {Path(member.name).name}", bounded.LIMIT_BYTES)
        file = archive.extractfile(member)
        return b"" if file is None else file.read()


# ------------------------------------------------------------ zip


def _zip(path: Path) -> Files:
    with open_regular(path) as file:
        found = zipped.members(file)
    return Files(path, {Path(name).name: partial(_from_zip, path, info) for name, info in found.items()})


def _from_zip(path: Path, info: zipfile.ZipInfo) -> bytes:
    with open_regular(path) as file:
        return zipped.read(file, info, f"{path} {Path(info.filename).name}")


# ------------------------------------------------------------ compressed files


def plain(name: str) -> str:
    """`name` without the suffix of a compression."""
    return Path(name).stem if Path(name).suffix in _SUFFIXES else name


def _decompressing(name: str, read: Read) -> Read:
    suffix = Path(name).suffix
    return (lambda: decompressed(read(), suffix, name)) if suffix in _SUFFIXES else read
