"""Start, stop, resume and extend runs. Each needs the token (`access`) and is written down (`log`)."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fedpace.dashboard import processes
from fedpace.dashboard.answers import answer, body_of, store_of
from fedpace.dashboard.log import log_of
from fedpace.disk.toml import read_toml
from fedpace.errors import ConfigError, FedpaceError, require, require_count
from fedpace.record.rows import NAME, Entry
from fedpace.record.store.store import Store

SUFFIX = ".toml"
MOST_FILES = 1000


def shown(request: Request) -> Response:
    """What was done last."""
    return answer(log_of(request).newest())


def experiments(request: Request) -> Response:
    """The files that can be started; None where no folder was given."""
    folder = _folder(request)
    return answer(None if folder is None else [_described(folder / name) for name in _files(folder)])


async def done(request: Request) -> Response:
    """Do one of them."""
    verb, sent = request.path_params["verb"], await body_of(request)
    if verb not in _VERBS:
        raise HTTPException(404, f"an action must be one of {', '.join(_VERBS)}")
    subject = sent.get("name")
    require(isinstance(subject, str), "name", subject, "text")
    return await run_in_threadpool(_logged, request, verb, str(subject), sent)


def _logged(request: Request, verb: str, subject: str, sent: dict[str, Any]) -> Response:
    with log_of(request).action(request, verb, subject):
        return answer(_VERBS[verb](request, subject, sent))


# ------------------------------------------------------------ one by one


def _start(request: Request, name: str, sent: dict[str, Any]) -> dict[str, Any]:
    """An experiment file of the folder, by its own name: no path, no upload."""
    folder = _folder(request)
    if folder is None:
        raise ConfigError("a run can be started where fedpace ui has --experiments DIR")
    files = _files(folder)
    require(
        name in files, "experiment file", name, f"one of {', '.join(files) or 'none: the folder is empty'}"
    )
    verb = _described(folder / name)["verb"]
    words = [str(verb), str((folder / name).resolve()), "--quiet"]
    pid = processes.start(words, store_of(request).home, log_of(request), subject=name, folder=folder)
    return {"started": name, "process": pid}


def _stop(request: Request, name: str, sent: dict[str, Any]) -> dict[str, Any]:
    """The signal lets the process end the event under way and write a checkpoint."""
    store = store_of(request)
    pid = store.owner(_entry(store, name))
    if pid is None:
        raise ConfigError(f"a run to stop must be one that a process on this machine works on; got {name!r}")
    os.kill(pid, signal.SIGTERM)
    return {"stopping": name, "process": pid}


def _resume(request: Request, name: str, sent: dict[str, Any]) -> dict[str, Any]:
    return _resumed(request, name, [])


def _extend(request: Request, name: str, sent: dict[str, Any]) -> dict[str, Any]:
    rounds = sent.get("rounds")
    require(isinstance(rounds, int) and not isinstance(rounds, bool), "rounds", rounds, "a whole number")
    require_count(rounds, "rounds", low=_entry(store_of(request), name).rounds + 1)
    return _resumed(request, name, ["--rounds", str(rounds)])


def _resumed(request: Request, name: str, more: list[str]) -> dict[str, Any]:
    store = store_of(request)
    entry = _entry(store, name)
    require(not store.is_alive(entry), "a run to resume", name, "one that is not running")
    words = ["resume", name, *more, "--quiet"]
    return {"resumed": name, "process": processes.start(words, store.home, log_of(request), subject=name)}


_VERBS = {"start": _start, "stop": _stop, "resume": _resume, "extend": _extend}


def _entry(store: Store, name: str) -> Entry:
    if not NAME.fullmatch(name):
        raise ConfigError(f"a run must be named as runs are; got {name!r}")
    return store[name]


# ------------------------------------------------------------ experiment files


def _folder(request: Request) -> Path | None:
    found: Path | None = request.app.state.experiments
    return found


def _files(folder: Path) -> list[str]:
    """Regular files right in the folder; no links, which may lead elsewhere."""
    every = (path for path in folder.iterdir() if path.suffix == SUFFIX and not path.name.startswith("."))
    return sorted(path.name for path in every if path.is_file() and not path.is_symlink())[:MOST_FILES]


def _described(path: Path) -> dict[str, object]:
    """Its name, the command that reads it, and what is in it."""
    try:
        tables = read_toml(path)
    except (FedpaceError, OSError) as error:
        return {"name": path.name, "verb": "run", "error": str(error)}
    about = {key: tables[key] for key in ("algorithm", "task", "clients", "rounds") if key in tables}
    several = "algorithms" in tables
    return {"name": path.name, "verb": "compare" if several else "run", "about": about}
