"""`compare` and `report` on digits, and the page in a real browser, at desktop and at telephone width."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.browser import Browser, require_browser

from fedpace.cli import main

SMALL = "--clients 12 --rounds 8 --model softmax --partition dirichlet:0.5 --population half-normal:2"
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "height", "mobile"), [(1400, 900, False), (400, 844, True)], ids=["desktop", "telephone"]
)
def test_the_page_in_a_browser(report: Path, tmp_path: Path, width: int, height: int, mobile: bool) -> None:
    require_browser()
    browser = Browser(tmp_path / "profile", width=width, height=height, mobile=mobile)
    try:
        browser.open(report.as_uri())
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
