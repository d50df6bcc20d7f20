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

    def commit(self, coordinator: Coordinator) -> None:
        """Everything taken down is safe when this returns; StorageError ends the server."""
        ...

    def close(self, coordinator: Coordinator) -> None: ...


class NoJournal:
    """Remembers nothing: for measurements of what a journal costs."""

    def append(self, what: Input) -> None:
        pass

    def commit(self, coordinator: Coordinator) -> None:
        pass

    def close(self, coordinator: Coordinator) -> None:
        pass
