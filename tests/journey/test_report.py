"""`compare` and `report` on digits, and the page in a real browser, at desktop and at telephone width."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from fedpace.cli import main

SMALL = "--clients 12 --rounds 8 --model softmax --partition dirichlet:0.5 --population half-normal:2"
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
)
CHARTS = 6 + 4 + 4 + 2 + 1  # curves, timelines, staleness, participation and accuracy, partition, traffic
ALGORITHMS = ("fedavg", "fedbuff", "ca2fl", "defedavg_niid")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Four algorithms compared, then on one page."""
    folder = tmp_path_factory.mktemp("report")
    words = SMALL.split()
    settings = [f"--set={each}" for each in ("clients_per_round=4", "buffer=3", "concurrency=6", "draws=3")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDPACE_HOME", str(folder / "home"))
        picture = str(folder / "compare.png")
        assert main(["compare", *ALGORITHMS, *words, *settings, "--quiet", "--plot", picture]) == 0
        names = [f"{name}-digits-1" for name in ALGORITHMS]
        assert main(["report", *names, "-o", str(folder / "report.html")]) == 0
    yield folder / "report.html"


def test_compare_and_report_on_digits(report: Path) -> None:
    text = report.read_text()
    assert all(f"{name}-digits-1" in text for name in ALGORITHMS)
    assert text.count("<svg") == CHARTS
    assert (report.parent / "compare.png").read_bytes().startswith(b"\x89PNG")


class Browser:
    """Headless Chromium, spoken to over WebDriver."""

    def __init__(self, folder: Path, *, width: int, height: int, mobile: bool) -> None:
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0", "--log-level=SEVERE"], stdout=subprocess.PIPE, text=True
        )
        assert self._driver.stdout is not None
        line = next(line for line in self._driver.stdout if "started successfully on port" in line)
        self._url = f"http://127.0.0.1:{line.rstrip().rstrip('.').rsplit(' ', 1)[1]}"
        size, profile = f"--window-size={width},{height}", f"--user-data-dir={folder}"
        options: dict[str, Any] = {"args": [*QUIET.split(), size, profile]}
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

    def open(self, file: Path) -> None:
        self._ask("POST", f"{self._session}/url", {"url": file.as_uri()})

    def evaluate(self, script: str) -> Any:
        return self._ask("POST", f"{self._session}/execute/sync", {"script": script, "args": []})

    def log(self, kind: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._ask("POST", f"{self._session}/se/log", {"type": kind})
        return entries

    def close(self) -> None:
        self._ask("DELETE", self._session)
        self._driver.terminate()
        self._driver.wait()
        assert self._driver.stdout is not None
        self._driver.stdout.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "height", "mobile"), [(1400, 900, False), (400, 844, True)], ids=["desktop", "telephone"]
)
def test_the_page_in_a_browser(report: Path, tmp_path: Path, width: int, height: int, mobile: bool) -> None:
    if not (shutil.which("chromedriver") and shutil.which("chromium")):
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")
    browser = Browser(tmp_path / "profile", width=width, height=height, mobile=mobile)
    try:
        browser.open(report)
        assert browser.evaluate("return innerWidth") == width
        charts = browser.evaluate(
            "return [...document.querySelectorAll('svg.chart')].map(c => [c.clientWidth, c.clientHeight])"
        )
        assert len(charts) == CHARTS and all(wide > 250 and high > 100 for wide, high in charts)
        assert browser.evaluate("return document.documentElement.scrollWidth") <= width  # nothing sticks out
        assert browser.evaluate(SMALLEST_LABEL) >= 8
        assert browser.evaluate(HOVER).startswith("fedavg-digits-1 0.")
        assert browser.log("browser") == []  # no script errors, nothing that could not be loaded
        events = [json.loads(entry["message"])["message"] for entry in browser.log("performance")]
        asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        own = ("data:", "chrome:", "chrome-untrusted:")  # the browser's own first page, as far as it came
        assert {url for url in asked if not url.startswith(own)} == {report.as_uri()}
    finally:
        browser.close()


SMALLEST_LABEL = """
const labels = [...document.querySelectorAll(".chart text")];
return Math.min(...labels.map(label => label.getBoundingClientRect().height));
"""
HOVER = """
const chart = document.querySelector("svg[data-plane]");
const box = chart.getBoundingClientRect();
chart.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width / 2, clientY: box.top + 20}));
return chart.parentElement.querySelector(".readout").textContent;
"""
