"""Answers as JSON, and what becomes of errors."""

from __future__ import annotations

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fedpace.disk.files import to_json
from fedpace.errors import ConfigError, FedpaceError, StorageError
from fedpace.record.rows import NAME
from fedpace.record.store.store import Entry, Store
from fedpace.untrusted import visible

MOST_BODY = 1 << 20


def answer(value: Any, status: int = 200) -> Response:
    """JSON without NaN, whatever the numbers are."""
    return Response(to_json(value), status, media_type="application/json")


def failed(request: Request, error: Exception) -> Response:
    """One line that says what is wrong."""
    if isinstance(error, HTTPException):
        return answer({"error": visible(error.detail)}, error.status_code)
    status = 500 if isinstance(error, StorageError) else 400
    return answer({"error": visible(str(error))}, status)


HANDLERS = {HTTPException: failed, FedpaceError: failed}


def store_of(request: Request) -> Store:
    found: Store = request.app.state.store
    return found


def name_of(request: Request) -> str:
    """The name in the path; it is one that a run can have."""
    name: str = request.path_params["name"]
    if not NAME.fullmatch(name):
        raise HTTPException(404, "no run has such a name")
    return name


def entry_of(request: Request) -> Entry:
    """The run that is named in the path; 404 if there is none."""
    found = store_of(request).find(name_of(request))
    if found is None:
        raise HTTPException(404, f"no run is called {request.path_params['name']}")
    return found


async def body_of(request: Request) -> dict[str, Any]:
    """An object sent as JSON, of a size that a person may send."""
    sent = bytearray()
    async for part in request.stream():
        sent += part
        if len(sent) > MOST_BODY:
            raise HTTPException(413, f"a request must have at most {MOST_BODY:,} bytes")
    try:
        found = json.loads(bytes(sent))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigError("a request must be a JSON object")
    return found
