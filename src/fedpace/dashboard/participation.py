"""Who took part: staleness of updates, participation, and a table of clients."""

from __future__ import annotations

from collections import Counter
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fedpace.dashboard.answers import answer, entry_of, store_of
from fedpace.record import rows
from fedpace.record.report.page import shares
from fedpace.record.rows import Entry
from fedpace.record.store.store import Store

MOST_CLIENTS = 100_000  # lines of a table that a page can hold


def shown(request: Request) -> Response:
    return answer(participation(store_of(request), entry_of(request)))


def participation(store: Store, entry: Entry) -> dict[str, Any]:
    """Of the steps until now; transfers and metrics of each client once the run is over."""
    history = store.history(entry.id)
    took = shares.participation(history)
    each = [*took, *[0] * min(rows.clients(entry) - len(took), MOST_CLIENTS)]
    return {
        "staleness": sorted(shares.staleness(history).items()),
        "participation": each,
        "participated": len(took),
        "jain": shares.jain(each),
        "gini": shares.gini(each),
        "clients": _table(history, entry),
    }


def _table(history: Any, entry: Entry) -> dict[str, list[Any]]:
    """Columns, one entry per client that took part or is known otherwise."""
    used: Counter[int] = Counter()
    stale: Counter[int] = Counter()
    largest: dict[int, int] = {}
    for record in history:
        for client, late in zip(record.clients, record.staleness, strict=True):
            used[client] += 1
            stale[client] += late
            largest[client] = max(largest.get(client, 0), late)
    accounts = _accounts(entry)
    metric = entry.summary.get("client_metric") or {"metric": "", "values": []}
    known = sorted({*used, *accounts, *range(len(metric["values"]))})[:MOST_CLIENTS]
    table: dict[str, list[Any]] = {
        "client": known,
        "updates": [used[client] for client in known],
        "mean staleness": [stale[client] / used[client] if used[client] else None for client in known],
        "max staleness": [largest.get(client) for client in known],
    }
    for name in dict.fromkeys(name for account in accounts.values() for name in account):
        table[name.replace("_", " ")] = [accounts.get(client, {}).get(name) for client in known]
    if metric["values"]:
        values = metric["values"]
        table[metric["metric"]] = [values[client] if client < len(values) else None for client in known]
    return table


def _accounts(entry: Entry) -> dict[int, dict[str, float]]:
    """What each client transferred, as the run counted it; what is of another kind is left out."""
    found = entry.traffic.get("clients", {})
    return {
        int(client): {name: n for name, n in account.items() if isinstance(n, int | float)}
        for client, account in found.items()
        if client.isdecimal() and len(client) < 12 and isinstance(account, dict)
    }
