"""All that the server answers, by path."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Route

from fedpace.dashboard import actions, fleet, history, runs, session, shipped, watching
from fedpace.dashboard.access import Access
from fedpace.dashboard.answers import HANDLERS
from fedpace.dashboard.events import Hub
from fedpace.dashboard.lazily import lazily
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
    Route(f"/api/clients/{NAME}", lazily("participation", "shown")),
    Route(f"/api/timeline/{NAME}", lazily("timeline", "shown")),
    Route(f"/api/files/{{kind}}/{NAME}", lazily("downloads", "shown")),
    Route("/api/compare", lazily("comparison", "shown")),
    Route("/api/compare/{kind}", lazily("comparison", "exported")),
    Route("/api/sweep", lazily("sweeps", "shown")),
    Route("/api/fleet", fleet.shown),
    Route("/metrics", fleet.metrics),
    Route("/api/actions", actions.shown),
    Route("/api/actions/{verb}", actions.done, methods=["POST"]),
    Route("/api/experiments", actions.experiments),
    Route("/api/events/fleet", fleet.events),
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
