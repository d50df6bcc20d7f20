"""A real browser: Debian's Chromium, where it is installed."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
)


def require_browser() -> None:
    if not (shutil.which("chromedriver") and shutil.which("chromium")):
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")


class Browser:
    """Headless Chromium, spoken to over WebDriver."""

    def __init__(
        self, folder: Path, *, width: int, height: int, mobile: bool, more: Sequence[str] = ()
    ) -> None:
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0", "--log-level=SEVERE"], stdout=subprocess.PIPE, text=True
        )
        assert self._driver.stdout is not None
        line = next(line for line in self._driver.stdout if "started successfully on port" in line)
        self._url = f"http://127.0.0.1:{line.rstrip().rstrip('.').rsplit(' ', 1)[1]}"
        size, profile = f"--window-size={width},{height}", f"--user-data-dir={folder}"
        options: dict[str, Any] = {"args": [*QUIET.split(), size, profile, *more]}
        if mobile:
            options["mobileEmulation"] = {
                "deviceMetrics": {"width": width, "height": height, "pixelRatio": 1.0}
            }
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{session['sessionId']}"

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._url + path, data, {"Content-Type": "application/json"}, method=method)
        for _ in range(100):
            try:
                with urlopen(request, timeout=60) as answer:
                    return json.load(answer)["value"]
            except URLError as error:
                if not isinstance(error.reason, ConnectionRefusedError):
                    raise
                time.sleep(0.1)
        raise TimeoutError("chromedriver does not answer")

    def open(self, url: str) -> None:
        self._ask("POST", f"{self._session}/url", {"url": url})

    def evaluate(self, script: str, *given: Any) -> Any:
        return self._ask("POST", f"{self._session}/execute/sync", {"script": script, "args": list(given)})

    def wait(self, condition: str, *given: Any, seconds: float = 30.0) -> Any:
        """Until the condition is true; its value then."""
        until = time.monotonic() + seconds
        while not (found := self.evaluate(f"return {condition}", *given)):
            if time.monotonic() > until:
                raise TimeoutError(f"{condition} is not true after {seconds} s")
            time.sleep(0.05)
        return found

    def type(self, keys: str) -> None:
        """Into whatever has the focus."""
        pressed = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        acts = [{"type": "key", "id": "keyboard", "actions": pressed}]
        self._ask("POST", f"{self._session}/actions", {"actions": acts})

    def devtools(self, command: str, **parameters: Any) -> Any:
        sent = {"cmd": command, "params": parameters}
        return self._ask("POST", f"{self._session}/goog/cdp/execute", sent)

    def prefer(self, scheme: str) -> None:
        """light or dark"""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.devtools("Emulation.setEmulatedMedia", features=[feature])

    def picture(self) -> bytes:
        """What is in the window, as PNG."""
        return base64.b64decode(self._ask("GET", f"{self._session}/screenshot"))

    def log(self, kind: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._ask("POST", f"{self._session}/se/log", {"type": kind})
        return entries

    def close(self) -> None:
        self._ask("DELETE", self._session)
        self._driver.terminate()
        self._driver.wait()
        assert self._driver.stdout is not None
        self._driver.stdout.close()
