"""What is new in the store since the last look: in the list of runs, and in one run."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from fedpace.dashboard import runs
from fedpace.dashboard.answers import entry_of, store_of
from fedpace.dashboard.events import hub_of
from fedpace.dashboard.history import columns
from fedpace.disk.files import to_json
from fedpace.record.store.store import Store


class RunsWatch:
    """Runs that came, changed, or went; runs under way as far as they have come."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, str] | None = None  # statuses at the last look
        self._said: dict[str, str] = {}  # lines of runs under way, as they were told

    def __call__(self) -> str | None:
        now, before = self._store.statuses(), self._known
        self._known = now
        if before is None:
            before = now
        gone = [name for name in before if name not in now]
        changed = [name for name, status in now.items() if status == "running" or before.get(name) != status]
        found = (
            runs.lines(self._store, self._store.listing(changed), self._store.annotations())
            if changed
            else []
        )
        fresh = [line for line in found if self._said.get(line["name"]) != to_json(line)]
        self._said = {line["name"]: to_json(line) for line in found}
        return to_json({"runs": fresh, "gone": gone}) if fresh or gone else None


class RunWatch:
    """Steps of one run beyond those that were there at the last look, and its state when that changes."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._seen: int | None = None  # the newest version
        self._state = ""

    def __call__(self) -> str | None:
        found = self._store.listing([self._name])
        if not found:
            return to_json({"gone": True})
        [run], before = found, self._seen
        state = self._store.state(run)
        changed = state != self._state
        self._seen, self._state = run.steps, state
        if before is None or not changed and run.steps == before:
            return None
        if run.steps < before:
            return to_json({"reset": True})
        later = self._store.steps_after(self._store.number(self._name), before)
        [line] = runs.lines(self._store, found, {})
        line.pop("tags")
        return to_json({"from": before, "steps": columns(later), "run": line})


def of_runs(request: Request) -> Response:
    """A stream of changes in the list of runs."""
    store = store_of(request)
    return hub_of(request).stream(request, "runs", lambda: RunsWatch(store))


def of_run(request: Request) -> Response:
    """A stream of one run's new steps."""
    store, name = store_of(request), entry_of(request).name
    return hub_of(request).stream(request, f"run {name}", lambda: RunWatch(store, name))
