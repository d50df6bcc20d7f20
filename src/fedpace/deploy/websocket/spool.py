"""Where an arriving message lies until the driver has it: small ones in memory, large ones on disk, under caps."""

from __future__ import annotations

import contextlib
import mmap
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

from fedpace.deploy.websocket.limits import MESSAGE_OVERHEAD, Budget, TransportLimits
from fedpace.errors import StorageError


class MessageBody:
    """The bytes of one message so far, and the space that they hold. In memory unless `file` is given."""

    def __init__(self, give_back: Callable[[], None], file: BinaryIO | None = None) -> None:
        self._file, self._memory = file, bytearray()
        self._give_back: Callable[[], None] | None = give_back

    def append(self, payload: memoryview) -> None:
        if self._file is None:
            self._memory += payload
            return
        try:
            self._file.write(payload)
        except OSError as error:
            raise StorageError(f"the spool cannot be written to ({error.strerror})") from None

    def whole(self) -> memoryview:
        """All of it, read-only; a spooled one as a map of its file, which has no name any more."""
        if self._file is None:
            return memoryview(self._memory).toreadonly()
        try:
            self._file.flush()
            mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise StorageError(f"the spool cannot be read ({error.strerror})") from None
        self._file.close()
        return memoryview(mapped)

    def release(self) -> None:
        """Give the space back; a second call does nothing."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def discard(self) -> None:
        """The message will never be whole."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk: what is buffered is not wanted either
                self._file.close()
        self.release()


class Spool:
    """Opens message bodies as long as there is space; tells when some comes back."""

    def __init__(
        self, limits: TransportLimits, folder: Path | None, freed: Callable[[], None] = lambda: None
    ) -> None:
        """Without a folder everything stays in memory, one largest message and what fits beside it."""
        self._limits, self._folder, self._freed = limits, folder, freed
        room = 0 if folder is not None else limits.message_bytes
        self.memory = Budget(limits.memory_total + room, limits.memory_each + room)
        self.disk = Budget(limits.spool_total, limits.message_bytes)

    def open(self, client: int, total: int) -> MessageBody | None:
        """A body for `total` bytes, or None while there is no space for it."""
        on_disk = self._folder is not None and total > self._limits.spool_above
        budget, size = (self.disk, total) if on_disk else (self.memory, total + MESSAGE_OVERHEAD)
        if not budget.take(client, size):
            return None

        def give_back() -> None:
            budget.give_back(client, size)
            self._freed()

        if not on_disk:
            return MessageBody(give_back)
        return MessageBody(give_back, self._nameless_file(give_back))

    def _nameless_file(self, give_back: Callable[[], None]) -> BinaryIO:
        """A file that vanishes with the process, however that ends."""
        try:
            return cast(BinaryIO, tempfile.TemporaryFile(dir=self._folder))
        except OSError as error:
            give_back()
            raise StorageError(f"the spool folder cannot be used ({error.strerror})") from None
