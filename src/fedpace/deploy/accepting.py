"""How a listener stops without losing a connection that is being accepted."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterable


async def stop_accepting(sockets: Iterable[socket.socket]) -> None:
    """Accept nothing more, and let what was accepted become a connection; then the listener may be closed.

    Closed within that moment, asyncio's server leaves a socket that nobody closes (CPython issue 109564).
    """
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):  # loops without readers accept in another way
        for each in sockets:
            loop.remove_reader(each)
    await asyncio.sleep(0)
