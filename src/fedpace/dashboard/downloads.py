"""Files of a run to take away: its model, its history, its client timeline, the experiment."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from fedpace.dashboard.answers import entry_of, store_of
from fedpace.record.rows import Entry
from fedpace.record.run import timeline
from fedpace.record.store import artifacts
from fedpace.record.store.store import Store
from fedpace.untrusted import open_regular

KINDS = ("model", "history.csv", "history.json", "timeline.csv", "command.txt")


def shown(request: Request) -> Response:
    """One of KINDS, as a file with a name of its own."""
    store, entry, kind = store_of(request), entry_of(request), request.path_params["kind"]
    if kind == "model":
        return _model(store, entry)
    if kind not in KINDS:
        raise HTTPException(404, f"a file must be one of {', '.join(KINDS)}")
    return attached(_text(store, entry, kind), f"{plain(entry.name)}-{kind}")


def attached(body: bytes | str, name: str) -> Response:
    """To be saved, never shown as a page of this server's."""
    return Response(body, media_type="application/octet-stream", headers=_as_file(name))


def plain(name: str) -> str:
    """A run's name as a part of a file's: the letters it can have, without slashes."""
    return name.replace("/", "-")


def _as_file(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"'}


def _model(store: Store, entry: Entry) -> Response:
    path = store.folder(entry.name) / artifacts.MODEL
    try:
        open_regular(path).close()
    except OSError:
        raise HTTPException(404, "the model is written when a run ends") from None
    name = f"{plain(entry.name)}-{artifacts.MODEL}"
    return FileResponse(path, media_type="application/octet-stream", headers=_as_file(name))


def _text(store: Store, entry: Entry, kind: str) -> bytes:
    if kind == "command.txt":
        return (" ".join(["fedpace run", *entry.arguments]) + "\n").encode()
    run = artifacts.load(store, entry)
    if kind == "history.json":
        return run.to_json(named=True).encode()
    with TemporaryDirectory() as folder:
        path = Path(folder) / kind
        if kind == "history.csv":
            run.to_csv(path)
        else:
            timeline.write(run.timeline(), path)
        return path.read_bytes()
