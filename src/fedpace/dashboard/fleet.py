"""The fleets of deployed runs, as their servers report them, for the page and for Prometheus."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fedpace.dashboard.answers import answer, store_of
from fedpace.dashboard.events import hub_of
from fedpace.disk.files import to_json
from fedpace.record.fleet import all_latest
from fedpace.record.fleet.prometheus import CONTENT_TYPE, rendered
from fedpace.record.store.store import Store


def shown(request: Request) -> Response:
    """The last status of every fleet."""
    return answer(_statuses(store_of(request)))


def metrics(request: Request) -> Response:
    """The same as Prometheus' text."""
    text = rendered(all_latest(store_of(request)))
    return Response(text, headers={"content-type": CONTENT_TYPE})


def events(request: Request) -> Response:
    """A stream of statuses, as they change."""
    store = store_of(request)
    return hub_of(request).stream(request, "fleet", lambda: FleetWatch(store))


class FleetWatch:
    """All statuses whenever one of them is new."""

    def __init__(self, store: Store) -> None:
        self._store, self._said = store, ""

    def __call__(self) -> str | None:
        before, self._said = self._said, to_json(_statuses(self._store))
        return None if before in ("", self._said) else self._said


def _statuses(store: Store) -> list[dict[str, Any]]:
    return [asdict(status) for status in all_latest(store)]
