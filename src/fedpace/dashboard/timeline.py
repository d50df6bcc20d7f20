"""The client timeline as columns of numbers: a page draws a hundred thousand sessions from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fedpace.dashboard.answers import entry_of, store_of
from fedpace.record.run.timeline import KINDS, UNUSED
from fedpace.record.store.artifacts import FATES, timeline_columns
from fedpace.untrusted import visible

PENDING = 255  # of a session without an outcome
Columns = dict[str, NDArray[Any]]
_WAIT, _TRAIN, _UPLOAD = KINDS.index("wait"), KINDS.index("train"), KINDS.index("upload")


def shown(request: Request) -> Response:
    """As safetensors: client, start, end, kind, fate and version of every stretch, by client and time."""
    from safetensors.numpy import save

    store, entry = store_of(request), entry_of(request)
    found = timeline_columns(store.folder(entry.name))
    if found is None:
        raise HTTPException(404, f"{visible(entry.name)} has no timeline yet: it is written when a run ends")
    meaning = {"kinds": ",".join(KINDS), "fates": ",".join(FATES), "unused": ",".join(UNUSED)}
    return Response(save(columns(found), meaning), media_type="application/octet-stream")


def columns(found: Columns) -> Columns:
    """Stretches by client and time, those spent waiting for a poll among them, each with its session's outcome."""
    names = ("client", "start", "end", "kind", "version", "session")
    client, start, end, kind, version, session = (np.asarray(found[f"activity.{name}"]) for name in names)
    order = np.lexsort((end, kind != _UPLOAD, start, client))
    client, start, end, kind = client[order], start[order], end[order], kind[order]
    version, session = version[order], session[order]
    fate = _fates(found, client, session)
    waits = np.flatnonzero(
        (kind[1:] == _UPLOAD)
        & (kind[:-1] == _TRAIN)
        & (client[1:] == client[:-1])
        & (session[1:] == session[:-1])
        & (start[1:] > end[:-1])
    )
    after = waits + 1
    return {
        "client": np.insert(client, after, client[waits]).astype(np.int32),
        "start": np.insert(start, after, end[waits]),
        "end": np.insert(end, after, start[after]),
        "kind": np.insert(kind, after, _WAIT).astype(np.uint8),
        "fate": np.insert(fate, after, fate[waits]).astype(np.uint8),
        "version": np.insert(version, after, version[waits]).astype(np.int32),
    }


def _fates(found: Columns, client: NDArray[Any], session: NDArray[Any]) -> NDArray[np.uint8]:
    """The outcome of each stretch's session, found by client and session."""
    many = 1 + max((int(part.max()) for part in (session, found["fate.session"]) if part.size), default=0)
    keys = np.asarray(found["fate.client"], np.int64) * many + np.asarray(found["fate.session"], np.int64)
    order = np.argsort(keys, kind="stable")
    wanted = np.asarray(client, np.int64) * many + np.asarray(session, np.int64)
    outcome = np.full(wanted.size, PENDING, np.uint8)
    if keys.size:
        at = np.minimum(np.searchsorted(keys[order], wanted), keys.size - 1)
        hit = keys[order][at] == wanted
        outcome[hit] = np.asarray(found["fate.fate"], np.uint8)[order][at[hit]]
    return outcome
