"""Server-sent events: one look at the store for everybody who watches the same thing, however many they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fedpace.errors import FedpaceError

SECONDS = 0.5  # between two looks
SILENCE = 15.0  # after which a stream says that it is still there
MOST_WAITING = 200  # events that a slow reader may be behind; it is told to start over then

Poll = Callable[[], str | None]  # what is new, as JSON; None: nothing
Listener = asyncio.Queue[str | None]
RESET = "event: reset\ndata: {}\n\n"


@dataclass(slots=True)
class Feed:
    """One subject, its listeners, and the task that looks for them."""

    listeners: set[Listener] = field(default_factory=set)
    task: asyncio.Task[None] | None = None


class Hub:
    """All feeds of a server; everything happens in its event loop."""

    def __init__(self) -> None:
        self._feeds: dict[str, Feed] = {}

    def stream(self, request: Request, subject: str, poll: Callable[[], Poll]) -> Response:
        """A stream of what `poll` finds; the first listener makes one, the others share it."""
        headers = {
            "cache-control": "no-store",
            "x-accel-buffering": "no",
            "content-type": "text/event-stream",
        }
        if request.method == "HEAD":  # nobody would hear it end
            return Response(headers=headers)
        return StreamingResponse(self._heard(subject, poll), headers=headers)

    def close(self) -> None:
        """End all streams."""
        for feed in self._feeds.values():
            for listener in feed.listeners:
                _put(listener, None)

    async def _heard(self, subject: str, poll: Callable[[], Poll]) -> AsyncIterator[str]:
        listener: Listener = asyncio.Queue(MOST_WAITING)
        feed = self._feeds.setdefault(subject, Feed())
        feed.listeners.add(listener)
        try:
            if feed.task is None:
                feed.task = asyncio.create_task(_look(feed, poll))
            yield "retry: 2000\n\n"
            while True:
                try:
                    text = await asyncio.wait_for(listener.get(), SILENCE)
                except TimeoutError:
                    text = ": still here\n\n"
                if text is None:
                    return
                yield text
        finally:
            feed.listeners.discard(listener)
            if not feed.listeners and self._feeds.get(subject) is feed:
                del self._feeds[subject]
                if feed.task is not None:
                    feed.task.cancel()


async def _look(feed: Feed, make: Callable[[], Poll]) -> None:
    poll = make()
    while True:
        try:
            found = await run_in_threadpool(poll)
        except FedpaceError:  # of a store that is being written to, or is gone: the next look may find it
            found = None
        if found is not None:
            for listener in tuple(feed.listeners):
                _put(listener, f"data: {found}\n\n")
        await asyncio.sleep(SECONDS)


def _put(listener: Listener, text: str | None) -> None:
    try:
        listener.put_nowait(text)
    except asyncio.QueueFull:
        with suppress(asyncio.QueueEmpty):
            while True:
                listener.get_nowait()
        listener.put_nowait(RESET if text is not None else None)


def hub_of(request: Request) -> Hub:
    found: Hub = request.app.state.hub
    return found
