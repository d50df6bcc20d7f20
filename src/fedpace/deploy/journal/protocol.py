"""What a serving loop needs of a journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fedpace.deploy.coordinator import Coordinator
    from fedpace.deploy.inputs import Input


class Journal(Protocol):
    def append(self, what: Input) -> None:
        """Take this down."""
        ...

    def commit(self) -> None:
        """Everything taken down is safe when this returns; StorageError ends the server."""
        ...

    def save_if_due(self, coordinator: Coordinator) -> None:
        """Perhaps a checkpoint: all that was taken down has been handled."""
        ...

    def close(self, coordinator: Coordinator | None) -> None:
        """The end: with a last checkpoint, unless the coordinator stopped half way."""
        ...


class NoJournal:
    """Remembers nothing: for measurements of what a journal costs."""

    def append(self, what: Input) -> None:
        pass

    def commit(self) -> None:
        pass

    def save_if_due(self, coordinator: Coordinator) -> None:
        pass

    def close(self, coordinator: Coordinator | None) -> None:
        pass
