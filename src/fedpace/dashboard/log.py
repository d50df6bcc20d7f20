"""What was done through the page: one line for each action, in a file beside the run store."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.requests import Request

from fedpace.disk.files import to_json
from fedpace.errors import FedpaceError
from fedpace.untrusted import open_regular

FILE = "actions.jsonl"
MOST_SHOWN = 200
_TAIL = 200_000  # bytes of the file that are looked at


class ActionLog:
    """Appended to, never changed."""

    def __init__(self, home: Path) -> None:
        self._path, self._lock = home / FILE, threading.Lock()

    def write(self, action: str, subject: str, result: str, by: str = "") -> None:
        line = {"time": time.time(), "action": action, "subject": subject, "result": result, "by": by}
        with self._lock, open(self._path, "a", encoding="utf-8") as file:
            file.write(to_json(line) + "\n")

    @contextmanager
    def action(self, request: Request, action: str, subject: str) -> Iterator[None]:
        """Whatever becomes of it is written down."""
        by = request.client.host if request.client else ""
        try:
            yield
        except FedpaceError as error:
            self.write(action, subject, f"refused: {error}", by)
            raise
        self.write(action, subject, "done", by)

    def newest(self) -> list[dict[str, Any]]:
        """The last actions, the newest first; a damaged line is left out."""
        try:
            with open_regular(self._path) as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - _TAIL))
                text = file.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        lines = (_read(line) for line in reversed(text.splitlines()))
        return [line for line in lines if line is not None][:MOST_SHOWN]


def _read(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def log_of(request: Request) -> ActionLog:
    found: ActionLog = request.app.state.log
    return found
