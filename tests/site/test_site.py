"""The site, built strictly and opened in a browser without a network: nothing is missing, nothing sticks out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import Browser, require_browser
from shipped import MATHJAX, MERMAID

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
KINDS = (  # one page of every kind
    "index.html",
    "pace.html",
    "client.html",
    "evidence.html",
    "speed.html",
    "results/README.html",
    "results/combined-methods/README.html",
    "reference/file-formats.html",
    "reference/generated/python/fedpace.aggregate.html",
    "reference/generated/algorithms/index.html",
    "reference/generated/algorithms/ca2fl.html",
    "reference/generated/commands/run.html",
    "search.html",
)
OWN = ("data:", "chrome:", "chrome-untrusted:")  # the browser's own first page


def require_tools() -> None:
    pytest.importorskip("furo", reason="needs the extra docs")
    pytest.importorskip("myst_nb", reason="needs the extra docs")
    shipped = all((DOCS / "_static" / each.file).exists() for each in (MATHJAX, MERMAID))
    if not shipped and shutil.which("npm") is None:
        pytest.skip("needs npm, for the programs that draw mathematics and diagrams")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as ./scripts/docs does, where a warning is an error."""
    require_tools()
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q"]
    paths = ["-d", str(folder / "doctrees"), str(DOCS), str(folder / "html")]
    built = subprocess.run(
        [*command, *paths], capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert built.returncode == 0, built.stderr
    return folder / "html"


@pytest.fixture(params=[(1400, 900, False), (400, 844, True)], ids=["desktop", "telephone"])
def browser(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Browser]:
    require_browser()
    width, height, mobile = request.param
    cut = ("--host-resolver-rules=MAP * ~NOTFOUND",)  # no name is found: the network is cut
    opened = Browser(tmp_path / "profile", width=width, height=height, mobile=mobile, more=cut)
    yield opened
    opened.close()


def requests(browser: Browser) -> tuple[set[str], list[str]]:
    """Addresses that were asked for, and those that failed, but for the browser's own."""
    events = [json.loads(entry["message"])["message"] for entry in browser.log("performance")]
    sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    asked = {
        each["requestId"]: each["request"]["url"]
        for each in sent
        if not each["request"]["url"].startswith(OWN)
    }
    failed = [event["params"]["requestId"] for event in events if event["method"] == "Network.loadingFailed"]
    return set(asked.values()), [asked[each] for each in failed if each in asked]


@pytest.mark.long
def test_every_page_was_built(site: Path) -> None:
    left_out = ("_ext", "_static", "_templates")
    pages = [page.relative_to(DOCS) for page in DOCS.rglob("*.md") if not page.parts[-2].startswith(left_out)]
    missing = [page for page in pages if not (site / page.with_suffix(".html")).exists()]
    assert [str(page) for page in missing] == ["README.md"]  # its place is taken by index.md


@pytest.mark.long
def test_no_page_names_a_resource_from_outside(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for tag in ("<script src=", '<img src="', '<link rel="stylesheet" type="text/css" href='):
            assert f"{tag}http" not in text and f'{tag}"http' not in text, page


@pytest.mark.long
def test_pages_without_a_network(site: Path, browser: Browser) -> None:
    width = browser.evaluate("return innerWidth")
    for page in KINDS:
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            browser.open((site / page).as_uri())
            assert browser.evaluate("return document.documentElement.scrollWidth") <= width, (page, scheme)
    asked, failed = requests(browser)
    assert failed == [] and all(url.startswith(site.as_uri()) for url in asked)
    assert [entry for entry in browser.log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.long
def test_diagrams_are_drawn_and_words_are_found(site: Path, browser: Browser) -> None:
    browser.open((site / "client.html").as_uri())
    assert browser.wait("document.querySelectorAll('pre.mermaid svg').length === 4")
    browser.open(f"{(site / 'search.html').as_uri()}?q=staleness")
    assert browser.wait("document.querySelectorAll('ul.search li').length > 5")
    assert requests(browser)[1] == []
