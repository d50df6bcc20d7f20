"""What a transport tells its driver, and the failure of the tasks that it needs to go on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from fedpace.deploy.transport import TransportEvent


class EventQueue:
    """Events in order; an error of ours in a watched task is raised where the driver waits, never swallowed."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[TransportEvent | BaseException] = asyncio.Queue()

    def __len__(self) -> int:
        return self._queue.qsize()

    def put(self, event: TransportEvent) -> None:
        self._queue.put_nowait(event)

    async def get(self) -> TransportEvent:
        event = await self._queue.get()
        if isinstance(event, BaseException):
            raise event
        return event

    def watch(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run it; if it fails the driver hears of it."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._queue.put_nowait(error)
