"""Client availability: windows (client, from, to) in seconds, and the traces they come from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from fedpace.errors import ConfigError, require

Window = tuple[int, float, float]
Windows = Sequence[Window]


def check_windows(windows: Windows, clients: int | None = None) -> tuple[Window, ...]:
    """The windows in order; refuses reversed, overlapping and unknown ones."""
    try:
        ordered = sorted((int(c), float(start), float(end)) for c, start, end in windows)
    except (TypeError, ValueError):
        raise ConfigError(f"windows must be (client, from, to), ...; got {windows!r}") from None
    for client, start, end in ordered:
        require(0 <= start < end, f"window of client {client}", (start, end), "0 <= from < to")
        if clients is not None:
            require(0 <= client < clients, "client of a window", client, f"in 0..{clients - 1}")
    for before, after in zip(ordered, ordered[1:], strict=False):
        if before[0] == after[0] and after[1] < before[2]:
            raise ConfigError(
                f"windows of client {before[0]} must not overlap; got {before[1:]} and {after[1:]}"
            )
    return tuple(ordered)


def changes(windows: Windows) -> Iterator[tuple[float, int, bool]]:
    """(time, client, available from then) for every border but those at 0 and at infinity; touching windows are one."""
    ordered = check_windows(windows)
    ends = {(c, end) for c, _, end in ordered}
    starts = {(c, start) for c, start, _ in ordered}
    for client, start, end in ordered:
        if start > 0 and (client, start) not in ends:
            yield start, client, True
        if end < math.inf and (client, end) not in starts:
            yield end, client, False


def absent_at_start(windows: Windows, clients: int) -> set[int]:
    """The clients that are absent at time 0. A client without any window is never available."""
    present = {client for client, start, _ in windows if start <= 0}
    return {client for client in range(clients) if client not in present}
