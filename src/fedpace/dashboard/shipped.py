"""The files of the page, as they lie in the package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_REPORT = "report.css"  # colours, cards and tables are those of the report page
_HEAD = b"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>fedpace</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/report.css">
"""  # how every page begins


@cache
def shipped(name: str) -> bytes:
    """One file, a page with its head; KeyError for a name that is none."""
    if name == _REPORT:
        return files("fedpace.record.report.page").joinpath("page.css").read_bytes()
    for file in files("fedpace.dashboard").joinpath("static").iterdir():
        if file.name == name:
            return _HEAD * name.endswith(".html") + file.read_bytes()
    raise KeyError(name)


def page(request: Request) -> Response:
    """The page, which asks for everything else."""
    return Response(shipped("index.html"), media_type=_KINDS[".html"])


def static(request: Request) -> Response:
    """A file of the page: compared anew each time, so that a new fedpace is a new page."""
    name = request.path_params["name"]
    kind = _KINDS.get(PurePosixPath(name).suffix)
    try:
        body = shipped(name) if kind else b""
    except KeyError:
        kind = None
    if kind is None:
        raise HTTPException(404, "no such file")
    return Response(body, headers={"content-type": kind, "cache-control": "no-cache"})
