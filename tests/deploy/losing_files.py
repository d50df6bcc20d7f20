"""A file system that loses what was not flushed: kill -9 alone never tests a flush, since the system writes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from fedpace.deploy.transport import Buffer


class PowerCut(Exception):
    """The machine stops here."""


@dataclass
class Inode:
    data: bytearray = field(default_factory=bytearray)
    flushed: bytes = b""


@dataclass
class LosingFiles:
    """The power is cut at call number `cut_at`. `after_power_cut` is the disk as it is found then."""

    cut_at: int | None = None
    random: Random = field(default_factory=Random)
    inodes: dict[str, Inode] = field(default_factory=dict)
    on_disk: dict[str, Inode] = field(default_factory=dict)  # names as they were when the folder was flushed
    calls: int = 0
    free: int = 1 << 40
    failing_sync: bool = False

    def call(self) -> None:
        self.calls += 1
        if self.calls == self.cut_at:
            raise PowerCut

    def after_power_cut(self) -> LosingFiles:
        """Names as flushed, or as they were in memory; bytes as flushed, with a torn piece of what was not."""
        names = self.inodes if self.random.random() < 0.5 else self.on_disk
        found = {name: Inode(bytearray(data := self._left(inode)), data) for name, inode in names.items()}
        return LosingFiles(random=self.random, inodes=found, on_disk=dict(found))

    def _left(self, inode: Inode) -> bytes:
        tail = bytes(inode.data[len(inode.flushed) :])
        torn = bytearray(tail[: self.random.randint(0, len(tail))])
        if torn and self.random.random() < 0.5:
            at = self.random.randrange(len(torn))
            torn[at:] = bytes(len(torn) - at)  # blocks that were given to the file and never written
        return inode.flushed + bytes(torn)

    def names(self) -> list[str]:
        return sorted(self.inodes)

    def read(self, name: str) -> bytes:
        return bytes(self.inodes[name].data)

    def create(self, name: str) -> LosingFile:
        self.call()
        self.inodes[name] = Inode()
        return LosingFile(self, self.inodes[name])

    def truncate(self, name: str, size: int) -> None:
        self.call()
        inode = self.inodes[name]
        del inode.data[size:]
        inode.flushed = bytes(inode.data)

    def rename(self, name: str, to: str) -> None:
        self.call()
        self.inodes[to] = self.inodes.pop(name)

    def remove(self, name: str) -> None:
        self.call()
        self.inodes.pop(name, None)

    def sync_names(self) -> None:
        self.call()
        self.on_disk = dict(self.inodes)

    def free_bytes(self) -> int:
        return self.free


@dataclass
class LosingFile:
    files: LosingFiles
    inode: Inode

    def write(self, parts: Sequence[Buffer]) -> None:
        data = b"".join(parts)
        try:
            self.files.call()
        except PowerCut:
            self.inode.data += data[: self.files.random.randint(0, len(data))]
            raise
        self.inode.data += data

    def sync(self) -> None:
        self.files.call()
        if self.files.failing_sync:
            raise OSError(5, "Input/output error")
        self.inode.flushed = bytes(self.inode.data)

    def close(self) -> None:
        pass
