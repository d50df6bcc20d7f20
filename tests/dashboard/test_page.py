"""The page in a real browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save
from tests.browser import Browser, require_browser
from tests.dashboard.serving import SOURCE, TOKEN, Server, ended, ready, started, stored

from fedpace.record.store.artifacts import TIMELINE
from fedpace.record.store.store import Store

HOSTILE = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
VIEWS = ("#/runs", "#/run/study/fedavg/0", "#/compare?run=study", "#/sweep?run=grid", "#/fleet", "#/actions")
ROWS = "[...document.querySelectorAll('table.rows tbody tr:not(.gap)')]"
NAMES = f"{ROWS}.map(row => row.querySelector('.c-name').textContent)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    require_browser()
    made = Browser(tmp_path_factory.mktemp("profile"), width=1400, height=900, mobile=False)
    yield made
    made.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A store with a study, a sweep, and a run whose texts are hostile."""
    home = tmp_path_factory.mktemp("filled")
    store = Store(home)
    for row, place in (("fedavg", 0), ("fedbuff", 1)):
        for seed in (0, 1, 2):
            about = {"study": {"name": "study", "row": row, "place": place}}
            stored(store, f"study/{row}/{seed}", seed=seed, steps=6 + place, algorithm=row, about=about)
    for beta in ("0.5", "0.9"):
        for rate in ("1", "2"):
            words = ["fedgm", "--set", f"beta={beta}", "--set", f"server_lr={rate}"]
            stored(
                store, f"grid/beta-{beta}-{rate}/0", steps=int(rate) + 2, algorithm="fedgm", arguments=words
            )
    texts = {"algorithm": HOSTILE, "task": HOSTILE, "clients": "4", "population": HOSTILE, "seed": "0"}
    stored(
        store, "hostile", algorithm=HOSTILE[:100], task=HOSTILE[:100], experiment=texts, arguments=[HOSTILE]
    )
    store.set(store["hostile"].id, "stopped", note=HOSTILE)
    store.annotate("hostile", HOSTILE, [HOSTILE])
    server = ready(started(home, "--token", TOKEN))
    yield server
    ended(server)


def go(browser: Browser, server: Server, where: str) -> None:
    browser.open("about:blank")
    browser.open(f"{server.address}/{where}")


def each_view(browser: Browser, server: Server) -> Iterator[str]:
    """Every view, once it is there and had a second for whatever comes later."""
    for where in VIEWS:
        go(browser, server, where)
        browser.wait("document.querySelector('main').textContent.length > 20")
        time.sleep(1.0)
        yield where


def troubles(browser: Browser) -> list[str]:
    """Script errors, policy violations, and whatever could not be loaded."""
    return [entry["message"] for entry in browser.log("browser")]


def test_the_page_shows_runs_and_a_run(browser: Browser, filled: Server) -> None:
    """The smoke test: list, search, one run with its curves, no errors, nothing from elsewhere."""
    go(browser, filled, "#/runs")
    browser.wait(f"{ROWS}.length == 11")
    browser.evaluate("document.body.focus()")
    browser.type("/fedbuff")
    browser.wait(f"{ROWS}.length == 3")
    assert sorted(browser.evaluate(f"return {NAMES}")) == [f"study/fedbuff/{seed}" for seed in range(3)]
    go(browser, filled, "#/run/study/fedbuff/1")
    browser.wait("document.querySelectorAll('.plot .uplot').length >= 5")
    assert browser.evaluate("return document.querySelector('h1').textContent") == "study/fedbuff/1"
    assert browser.evaluate("return document.documentElement.scrollWidth <= innerWidth")
    assert troubles(browser) == []
    events = [json.loads(entry["message"])["message"] for entry in browser.log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    own = ("data:", "chrome:", "chrome-untrusted:", "about:", f"{filled.address}/")
    assert [url for url in asked if not url.startswith(own)] == []


@pytest.mark.long
def test_hostile_names_and_notes_stay_text(browser: Browser, filled: Server) -> None:
    for where in (
        "#/runs",
        "#/run/hostile",
        "#/compare?run=hostile",
        "#/sweep?run=hostile",
        "#/actions",
        "#/fleet",
    ):
        go(browser, filled, where)
        browser.wait("document.querySelector('main').textContent.length > 20")
        time.sleep(1.0)  # whatever would come of markup comes of it now
        assert browser.evaluate("return document.title.includes('broken')") is False, where
        assert browser.evaluate("return document.querySelectorAll('main img, main script').length") == 0
    go(browser, filled, "#/run/hostile")
    browser.wait("document.getElementById('note')")
    assert browser.evaluate("return document.getElementById('note').value") == HOSTILE
    assert troubles(browser) == []


@pytest.mark.long
def test_filters_sorting_and_the_address_that_restores_them(browser: Browser, filled: Server) -> None:
    go(browser, filled, "#/runs?algorithm=fedgm&sort=metric%20accuracy&down=1")
    browser.wait(f"{ROWS}.length == 4")
    assert browser.evaluate(f"return {NAMES}")[0].endswith("-2/0")
    browser.evaluate("document.querySelector('select[aria-label=algorithm]').value = 'fedavg'")
    browser.evaluate(
        "document.querySelector('select[aria-label=algorithm]').dispatchEvent(new Event('change'))"
    )
    browser.wait(f"{ROWS}.length == 3")
    assert "algorithm=fedavg" in browser.evaluate("return location.hash")
    browser.evaluate(
        "[...document.querySelectorAll('.sort')].find(b => b.textContent.startsWith('name')).click()"
    )
    assert browser.evaluate(f"return {NAMES}") == [f"study/fedavg/{seed}" for seed in range(3)]
    assert (
        browser.evaluate("return document.querySelector('th.c-name').getAttribute('aria-sort')")
        == "ascending"
    )


@pytest.mark.long
def test_selected_runs_are_compared_with_the_keyboard(browser: Browser, filled: Server) -> None:
    go(browser, filled, "#/runs?q=study&sort=name&down=")
    browser.wait(f"{ROWS}.length == 6")
    browser.evaluate("document.querySelector('.scroller').focus()")
    browser.type(" j c")
    browser.wait("location.hash.startsWith('#/compare?run=')")
    browser.wait("document.querySelector('.plot.tall .uplot')")


@pytest.mark.long
def test_a_study_is_compared_with_intervals_target_and_differences(browser: Browser, filled: Server) -> None:
    go(
        browser,
        filled,
        "#/compare?run=study&metric=accuracy&target=accuracy%3D0.8&baseline=fedbuff&over=traffic",
    )
    browser.wait("document.querySelector('.plot.tall .uplot')")
    text = browser.evaluate("return document.querySelector('main').textContent")
    assert (
        "accuracy minus fedbuff's" in text
        and "95 % t-interval" in text
        and "accuracy over bytes sent" in text
    )
    links = browser.evaluate(
        "return [...document.querySelectorAll('a[download]')].map(a => a.getAttribute('href'))"
    )
    assert len(links) == 4 and all("target=accuracy%3D0.8" in link for link in links)
    assert troubles(browser) == []


@pytest.mark.long
def test_a_sweep_shows_its_best_point_and_a_map(browser: Browser, filled: Server) -> None:
    go(browser, filled, "#/sweep?run=grid")
    browser.wait("document.querySelectorAll('svg.figure').length == 2")
    assert browser.evaluate("return document.querySelectorAll('svg.figure .path').length") == 4
    facts = browser.evaluate("return [...document.querySelectorAll('.fact')].map(f => f.textContent)")
    assert (
        "server_lr2" in facts
        and browser.evaluate("return document.querySelectorAll('.cell-text').length") == 4
    )


@pytest.mark.long
def test_light_and_dark(browser: Browser, filled: Server) -> None:
    go(browser, filled, "#/run/study/fedavg/0")
    browser.wait("document.querySelectorAll('.plot canvas').length >= 5")
    shades = []
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.wait("matchMedia('(prefers-color-scheme: dark)').matches == arguments[0]", scheme == "dark")
        shades.append(browser.evaluate("return getComputedStyle(document.body).backgroundColor"))
    browser.prefer("light")
    assert shades == ["rgb(251, 250, 247)", "rgb(18, 21, 28)"]


@pytest.mark.long
def test_actions_ask_first_and_need_the_token(browser: Browser, filled: Server) -> None:
    stored(filled.store, "to-delete")
    press = "[...document.querySelectorAll('button')].find(b => b.textContent == arguments[0]).click()"
    go(browser, filled, "#/run/to-delete")
    browser.wait("document.querySelector('.head .danger')")
    browser.evaluate("sessionStorage.clear(); " + press, "Delete")
    browser.wait("document.querySelector('dialog').textContent.includes('cannot be undone')")
    browser.evaluate("document.querySelector('dialog button[value=no]').click()")
    browser.wait("!document.querySelector('dialog')")
    assert "to-delete" in filled.store.statuses()
    browser.evaluate(press, "Delete")
    browser.evaluate("document.querySelector('dialog .danger').click()")
    browser.wait("document.getElementById('asked-token')")
    browser.evaluate("document.getElementById('asked-token').value = arguments[0]", TOKEN)
    browser.evaluate("document.querySelector('dialog .primary').click()")
    browser.wait("location.hash == '#/runs'")
    assert "to-delete" not in filled.store.statuses()


@pytest.mark.long
def test_a_private_page_opens_with_its_printed_address(browser: Browser, private: Server) -> None:
    go(browser, private, "")
    browser.wait("document.getElementById('enter')")
    browser.open(private.said[0])
    browser.wait("document.querySelector('nav')")
    browser.wait("document.getElementById('live').textContent == 'live'")
    assert browser.evaluate("return location.href").startswith(f"{private.address}/")
    assert "token" not in browser.evaluate("return location.href")
    assert browser.evaluate("return document.cookie") == ""  # HttpOnly
    found = troubles(browser)
    assert all("401" in message for message in found), found  # of the first look, without the token


@pytest.mark.long
def test_the_page_works_with_the_network_cut(tmp_path: Path, filled: Server) -> None:
    """Nothing but this machine can be reached; every view is shown, and no request fails."""
    require_browser()
    cut = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    made = Browser(tmp_path, width=1400, height=900, mobile=False, more=[cut])
    try:
        assert list(each_view(made, filled)) == list(VIEWS)
        events = [json.loads(entry["message"])["message"] for entry in made.log("performance")]
        failed = [
            e["params"]
            for e in events
            if e["method"] == "Network.loadingFailed" and not e["params"].get("canceled")
        ]
        assert failed == [] and troubles(made) == []
    finally:
        made.close()


@pytest.mark.long
def test_nothing_sticks_out_on_a_telephone(tmp_path: Path, filled: Server) -> None:
    require_browser()
    made = Browser(tmp_path, width=400, height=844, mobile=True)
    try:
        for where in each_view(made, filled):
            assert made.evaluate("return document.documentElement.scrollWidth") <= 400, where
    finally:
        made.close()


@pytest.mark.long
def test_everything_that_can_be_used_has_a_name(browser: Browser, filled: Server) -> None:
    unnamed = """
    const labels = (e) => [...(e.labels || [])].map(l => l.textContent).join("");
    const name = (e) => e.getAttribute("aria-label") || e.textContent.trim() || e.title || labels(e);
    const used = "a, button, input, select, textarea, canvas[tabindex], [role=region], [role=img]";
    return [...document.querySelectorAll(used)]
      .filter(e => e.offsetParent !== null && !name(e)).map(e => e.outerHTML.slice(0, 120));
    """
    for where in each_view(browser, filled):
        assert browser.evaluate(unnamed) == [], where


# ------------------------------------------------------------ runs under way, and many


@pytest.fixture
def working(filled: Server) -> Iterator[Any]:
    """`fedpace run` with these words, in the server's store."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> None:
        env = {
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "FEDPACE_HOME": str(filled.home),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "fedpace", "run", *words, "--quiet"]
        begun.append(subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL))

    yield start
    for process in begun:
        process.terminate()
        process.wait()


@pytest.mark.long
def test_a_run_is_seen_growing(browser: Browser, filled: Server, working: Any) -> None:
    go(browser, filled, "#/runs?q=growing")
    working("fedavg", "--clients", "10", "--model", "softmax", "--rounds", "100000", "--name", "growing")
    browser.wait(f"{NAMES}.includes('growing')", seconds=120)
    go(browser, filled, "#/run/growing")
    points = "Number(document.querySelector('.chart-card')?.dataset.points || 0)"
    first = browser.wait(f"{points} > 2 && {points}", seconds=120)
    browser.wait(f"{points} > arguments[0]", first)
    shown = browser.evaluate(f"return {points}")
    steps = filled.store.listing(["growing"])[0].steps
    browser.wait(f"{points} >= arguments[0]", steps, seconds=2.0)  # at most two seconds behind the store
    assert steps >= shown - 1 and troubles(browser) == []


@pytest.mark.long
def test_a_timeline_of_a_finished_run_is_zoomed(browser: Browser, filled: Server, working: Any) -> None:
    sizes = ("--clients", "8", "--model", "softmax", "--rounds", "40", "--set", "buffer=2")
    working("fedbuff", *sizes, "--name", "zoomed")
    go(browser, filled, "#/runs?q=zoomed%20done")
    browser.wait(f"{ROWS}.length == 1", seconds=120)
    go(browser, filled, "#/run/zoomed")
    heading = "[...document.querySelectorAll('h2')].find(h => h.textContent == 'Client timeline')"
    browser.wait(heading)
    browser.evaluate(f"{heading}.scrollIntoView()")
    canvas = "document.querySelector('.timeline canvas').dataset"
    whole = float(browser.wait(f"document.querySelector('.timeline canvas') && {canvas}.to"))
    browser.evaluate("document.querySelector('.timeline canvas').focus()")
    browser.type("++")
    assert float(browser.evaluate(f"return {canvas}.to - {canvas}.from")) == pytest.approx(whole / 4)
    browser.type("0")
    assert float(browser.evaluate(f"return {canvas}.to")) == whole


@pytest.mark.long
def test_a_hundred_thousand_sessions_are_drawn_and_zoomed(browser: Browser, filled: Server) -> None:
    """Drawing is measured in the page: a frame stays short when all of them are in sight."""
    many, clients = 100_000, 200
    stored(filled.store, "sessions")
    client, start = np.arange(many) % clients, np.arange(many) // clients * 1.0
    columns = {"client": client, "start": start, "end": start + 0.8, "kind": np.ones(many, np.uint8)}
    columns |= {"version": start.astype(np.int64), "session": start.astype(np.int64)}
    fates = {
        "client": client,
        "session": columns["session"],
        "fate": np.zeros(many, np.uint8),
        "version": client,
    }
    arrays = {f"activity.{name}": column for name, column in columns.items()}
    arrays |= {f"fate.{name}": column for name, column in fates.items()}
    folder = filled.store.folder("sessions")
    folder.mkdir(parents=True)
    (folder / TIMELINE).write_bytes(save(arrays))
    go(browser, filled, "#/run/sessions")
    browser.wait("document.querySelector('h2')")
    browser.evaluate("document.querySelectorAll('h2')[2].scrollIntoView()")
    canvas = "document.querySelector('.timeline canvas')"
    assert browser.wait(f"{canvas} && {canvas}.dataset.stretches") == str(many)
    browser.evaluate(f"{canvas}.focus()")
    took = []
    for _ in range(5):
        key = "new KeyboardEvent('keydown', {key: arguments[0]})"
        draw = f"const began = performance.now(); {canvas}.dispatchEvent({key}); return performance.now() - began"
        took += [browser.evaluate(draw, "+"), browser.evaluate(draw, "0")]
    assert min(took[1::2]) < 200 and float(browser.evaluate(f"return {canvas}.dataset.to")) == 499.8


@pytest.mark.long
def test_five_thousand_runs_are_painted_within_a_second(browser: Browser, tmp_path: Path) -> None:
    sys.path.insert(0, str(SOURCE.parent / "benchmarks"))
    from many_runs import fill  # type: ignore[import-not-found]

    fill(tmp_path, 5000, 5)
    server = ready(started(tmp_path))
    try:
        painted = []
        for _ in range(5):  # the quickest: other processes are not the page's
            go(browser, server, "#/runs")
            browser.wait("document.querySelector('.count')?.textContent == '5,000 runs'")
            painted.append(
                browser.evaluate("return performance.getEntriesByName('rows painted')[0].startTime")
            )
        assert min(painted) < 1000
        assert browser.evaluate("return document.querySelectorAll('tr').length") < 100
    finally:
        ended(server)
