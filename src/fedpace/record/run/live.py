"""A saved run on the live page, in a notebook: `fedpace ui` in a process of its own, which ends with this one."""

from __future__ import annotations

import atexit
import subprocess
import sys
from dataclasses import dataclass
from urllib.parse import quote

from fedpace.display import html
from fedpace.errors import ConfigError

HEIGHT = 720  # of the frame, in pixels
_serving: list[tuple[subprocess.Popen[str], str]] = []  # one for all frames of this process


@dataclass(frozen=True, slots=True)
class LivePage:
    """The page of one run, to read: a frame in a notebook, an address elsewhere."""

    url: str
    title: str

    def __repr__(self) -> str:
        return f"{self.title}: {self.url}"

    def _repr_html_(self) -> str:
        style = f"width:100%;height:{HEIGHT}px;border:1px solid rgba(128,128,128,.35);border-radius:8px"
        frame = (
            f'<iframe src="{html.text(self.url)}" title="{html.text(self.title)}" style="{style}"></iframe>'
        )
        return f'{frame}<div style="font-size:12px;opacity:.7">{html.text(self.url)}</div>'


def live_page(name: str) -> LivePage:
    """The page of the run of this name; the server is started with the first one."""
    return LivePage(f"{_address()}#/run/{quote(name)}", name)


def _address() -> str:
    for process, address in _serving:
        if process.poll() is None:
            return address
    command = [sys.executable, "-m", "fedpace", "ui", "--port", "0"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C in the notebook is not for it
    )
    assert process.stdout is not None  # a pipe
    address = process.stdout.readline().strip()
    if not address.startswith("http"):
        raise ConfigError(address or "fedpace ui could not be started")
    atexit.register(_end, process)
    _serving[:] = [(process, address)]
    return address


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait()
