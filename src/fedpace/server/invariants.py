"""What must hold inside a server between two events, whatever came in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from fedpace.aggregate import Cached
from fedpace.aggregate.cached import CachedState
from fedpace.pace import Buffered, Immediate
from fedpace.server.machine import Server
from fedpace.vector import all_finite


def assert_sound(server: Server, in_use: Iterable[tuple[int, int]] = ()) -> None:
    """AssertionError says what is wrong. `in_use`: (client, version) of models that clients start or started from."""
    assert all_finite((server.state.x, server.state.opt, server.state.control)), (
        "a model or a state is not finite"
    )
    check_concurrency(server)
    check_cache(server)
    check_versions(server, in_use)


def check_concurrency(server: Server) -> None:
    """Buffered pacing: as many active clients as asked for, or all available ones."""
    pace, s = server.algorithm.pace, server.state
    if isinstance(pace, Buffered | Immediate):
        places = server.clients if pace.concurrency is None else pace.concurrency
        active, free = s.pace.active, s.pace.free
        assert len(active) + free == places, (
            f"{len(active)} active clients and {free} free places make {places}"
        )
        idle, short = server.clients - len(active | server.unavailable), s.pace.short
        assert not (short and idle), f"{short} places were left free and {idle} clients are idle"


def check_cache(server: Server, tolerance: float = 1e-6) -> None:
    """h_bar is the mean of all h_i, between steps."""
    rule, state = server.algorithm.aggregate, server.state.aggregate
    if not isinstance(rule, Cached) or not isinstance(state, CachedState) or state.renewed:
        return
    rows = [rule.row(client, state) for client in range(state.clients)]
    held = [row for row in rows if row is not None]
    if held:
        largest = max(float(np.abs(row).max()) for row in held)
        mean = np.sum(held, axis=0) / state.clients
        np.testing.assert_allclose(state.mean, mean, rtol=0, atol=tolerance * largest + 1e-12)


def check_versions(server: Server, in_use: Iterable[tuple[int, int]] = ()) -> None:
    """The models stored are those that are held, counted, and those of the window; no client misses its own."""
    s, limits = server.state, server.algorithm.limits
    held = Counter((*s.holds.all(), *(c.version for c in s.kept if c.version >= 0)))
    assert s.versions.holders == held, f"versions held {s.versions.holders}, counted {dict(held)}"
    window = set(range(max(0, s.versions.newest - s.versions.keeps + 1), s.versions.newest + 1))
    assert set(s.versions.models) == window | set(held), f"models stored: {sorted(s.versions.models)}"
    assert all(len(mine) <= limits.versions for mine in s.holds.taken.values()), "a client holds too many"
    for client, version in in_use:
        order = s.holds.orders.get(client)
        overtaken = order is not None and order.version != version
        assert overtaken or version in s.versions.models, (
            f"client {client} uses version {version}, which is gone"
        )
