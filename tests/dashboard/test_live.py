"""`run.live()`: the page of a run in a notebook."""

from __future__ import annotations

from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.dashboard.serving import stored

import fedpace
from fedpace.record.run import live
from fedpace.record.store.store import Store


def test_a_run_that_is_not_saved_has_no_page() -> None:
    task = fedpace.tasks.quadratics([0.0, 1.0])
    run = fedpace.simulate(fedpace.algorithms.fedavg(steps=1, batch_size=None), task, rounds=1)
    with pytest.raises(fedpace.errors.ConfigError, match="store=NAME"):
        run.live()


def test_a_frame_has_the_address_as_text_and_no_token() -> None:
    page = live.LivePage('http://127.0.0.1:1/#/run/a"><script>', 'a"><script>')
    assert "<script>" not in page._repr_html_() and "token" not in page._repr_html_()


@pytest.mark.long
def test_one_server_serves_all_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path))
    stored(Store(tmp_path), "study/row/0")
    first, second = fedpace.runs().open("study/row/0").live(), fedpace.runs().open("study/row/0").live()
    assert first.url == second.url and first.url.endswith("/#/run/study/row/0")
    assert b'"name": "study/row/0"' in urlopen(first.url.partition("#")[0] + "api/runs", timeout=30).read()
    [(process, _)] = live._serving
    live._end(process)
    assert process.stdout is not None and process.poll() is not None
    process.stdout.close()
