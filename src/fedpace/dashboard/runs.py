"""The list of runs, one run's facts, notes and tags, and deletion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fedpace.dashboard.answers import answer, body_of, entry_of, name_of, store_of
from fedpace.dashboard.log import log_of
from fedpace.errors import require
from fedpace.record import rows
from fedpace.record.rows import Entry, Listed
from fedpace.record.store.store import Store

MOST_NOTE = 20_000
MOST_TAGS = 50
_TAG = re.compile(r"[^\s,][^,\n]{0,39}")
Annotations = Mapping[str, tuple[str, list[str]]]


def listed(request: Request) -> Response:
    """All runs, the newest last; with `newest`, only so many of them."""
    store, newest = store_of(request), request.query_params.get("newest", "")
    names = list(store.statuses())[-int(newest) :] if newest.isdecimal() and 0 < len(newest) < 5 else None
    return answer(lines(store, store.listing(names), store.annotations()))


def lines(store: Store, runs: Iterable[Listed], said: Annotations) -> list[dict[str, Any]]:
    """Runs as the list shows them."""
    return [_line(store, run, said.get(run.name, ("", []))) for run in runs]


def _line(store: Store, run: Listed, said: tuple[str, list[str]]) -> dict[str, Any]:
    state = store.state(run)
    return {
        "name": run.name,
        "algorithm": run.algorithm,
        "task": run.task,
        "settings": run.settings,
        "seed": run.seed,
        "steps": run.steps,
        "rounds": run.rounds,
        "state": state,
        "metrics": run.metrics,
        "began": (run.began if run.began.tzinfo else run.began.replace(tzinfo=UTC)).isoformat(),
        "tags": said[1],
        **({"seconds_left": _left(store, run)} if state == "running" else {}),
    }


def _left(store: Store, run: Listed) -> float | None:
    """Real seconds, at the pace until now; None before the first step."""
    if not run.steps:
        return None
    newest = store.steps_after(store.number(run.name), run.steps - 1)
    spent = newest[0][1] if newest else None
    return None if spent is None else spent / run.steps * max(0, run.rounds - run.steps)


def shown(request: Request) -> Response:
    """One run but its history: configuration, environment, command, what is known of its end."""
    return answer(facts(store_of(request), entry_of(request)))


def facts(store: Store, entry: Entry) -> dict[str, Any]:
    from fedpace.privacy.spent import (
        COVERED,
    )  # both take a second to import, and a list of runs needs neither
    from fedpace.record.store.artifacts import MODEL, TIMELINE

    note, tags = store.annotations().get(entry.name, ("", []))
    [line] = lines(store, store.listing([entry.name]), {entry.name: (note, tags)}) or [{}]
    known = rows.facts(entry)
    return {
        **line,
        "note": note,
        "ending": entry.note,
        "command": known.pop("command"),
        "versions": known.pop("versions"),
        "machine": known.pop("machine"),
        "configuration": {name: text for name, text in known.items() if text},
        "counters": entry.counters,
        "traffic": {side: entry.traffic[side] for side in ("up", "down") if side in entry.traffic},
        "initial_metrics": entry.summary.get("initial_metrics", {}),
        "privacy": entry.summary.get("privacy"),
        "covered": COVERED,
        "compute": entry.summary.get("compute"),
        "real_seconds": entry.summary.get("real_seconds"),
        "study": entry.about.get("study", {}).get("name"),
        "clients": rows.clients(entry),
        "files": {
            "model": (store.folder(entry.name) / MODEL).is_file(),
            "timeline": (store.folder(entry.name) / TIMELINE).is_file(),
            "experiment": bool(entry.arguments),
        },
    }


async def annotated(request: Request) -> Response:
    """Put down a note and tags."""
    name, sent = name_of(request), await body_of(request)
    note, tags = sent.get("note", ""), sent.get("tags", [])
    require(
        isinstance(note, str) and len(note) <= MOST_NOTE, "note", note, f"text, at most {MOST_NOTE:,} letters"
    )
    good = isinstance(tags, list) and len(tags) <= MOST_TAGS
    good = good and all(isinstance(tag, str) and _TAG.fullmatch(tag) for tag in tags)
    require(good, "tags", tags, f"at most {MOST_TAGS} texts without commas, of at most 40 letters")
    store = store_of(request)
    entry_of(request)
    await run_in_threadpool(store.annotate, name, note, list(dict.fromkeys(tags)))
    return answer({"note": note, "tags": tags})


def deleted(request: Request) -> Response:
    """Forget a run and its files; not one that a process is working on."""
    store, name = store_of(request), name_of(request)
    if name not in store.statuses():
        raise HTTPException(404, f"no run is called {name}")
    with log_of(request).action(request, "delete", name):
        store.delete(name)
    return answer({"deleted": name})
