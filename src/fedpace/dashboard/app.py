"""All that the server answers, by path."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Route

from fedpace.dashboard import history, runs, session, shipped, watching
from fedpace.dashboard.access import Access
from fedpace.dashboard.answers import HANDLERS
from fedpace.dashboard.events import Hub
from fedpace.dashboard.log import ActionLog
from fedpace.record.store.store import Store

NAME = "{name:path}"  # names of runs in studies have slashes
ROUTES = [
    Route("/", shipped.page),
    Route("/static/{name}", shipped.static),
    Route("/api/session", session.opened, methods=["POST"]),
    Route("/api/runs", runs.listed),
    Route(f"/api/runs/{NAME}", runs.shown),
    Route(f"/api/runs/{NAME}", runs.deleted, methods=["DELETE"]),
    Route(f"/api/runs/{NAME}", runs.annotated, methods=["PATCH"]),
    Route(f"/api/history/{NAME}", history.shown),
    Route("/api/events/runs", watching.of_runs),
    Route(f"/api/events/run/{NAME}", watching.of_run),
]


def application(store: Store, access: Access, experiments: Path | None) -> Starlette:
    """The application without its guard."""
    app = Starlette(routes=ROUTES, exception_handlers=HANDLERS)
    app.state.store, app.state.access, app.state.experiments = store, access, experiments
    app.state.log, app.state.hub = ActionLog(store.home), Hub()
    return app


def hub_of(app: Starlette) -> Hub:
    found: Hub = app.state.hub
    return found
