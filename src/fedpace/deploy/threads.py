"""Work in a thread that owns files: whoever waits for it and is cancelled waits until it has let go of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


async def to_the_end(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """The result of `work`, computed in a thread; a cancellation is passed on when it is done."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *args, **options))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise
