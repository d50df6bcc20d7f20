"""What version 0.1 wrote: a run store, a checkpoint and a JSON file. They open, or are refused in one line."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import fedpace
from fedpace.errors import CheckpointError
from fedpace.record.store import checkpoint

WRITTEN = Path(__file__).parents[1] / "data" / "previous"


@pytest.fixture
def old_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    shutil.copytree(WRITTEN, home)
    monkeypatch.setenv("FEDPACE_HOME", str(home))
    return home


def test_its_runs_are_listed_and_shown(fedpace: Any, old_home: Path) -> None:
    listed = fedpace("runs", "list")
    assert listed.code == 0 and "finished" in listed.out and "stopped" in listed.out
    shown = fedpace("runs", "show", "finished")
    assert shown.code == 0 and "fedbaca" in shown.out


def test_its_runs_make_a_report(fedpace: Any, old_home: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    made = fedpace("report", "finished", "-o", page)
    assert made.code == 0, made.err
    assert "fedbaca" in page.read_text(encoding="utf-8")


def test_its_run_that_names_the_former_mode_opens(fedpace: Any, old_home: Path, tmp_path: Path) -> None:
    """`mode=as_published`, today `realisable`, in the arguments that a run is made from again."""
    with closing(sqlite3.connect(old_home / "runs.sqlite")) as store, store:
        ((given,),) = store.execute("select arguments from runs where name = 'finished'")
        named = json.dumps([*json.loads(given), "--set", "mode=as_published"])
        store.execute("update runs set arguments = ? where name = 'finished'", [named])
    assert "as_published" in fedpace("runs", "show", "finished").out
    shown = fedpace("resume", "finished")
    assert shown.code == 0 and "fedbaca on digits" in shown.out, shown.err
    assert '"as_published" is now called "realisable"' in shown.err
    assert fedpace("report", "finished", "-o", tmp_path / "page.html").code == 0


def test_its_checkpoint_is_refused_in_one_line(fedpace: Any, old_home: Path) -> None:
    """Frames of version 1 have no check word: what is in a checkpoint cannot be told from damage."""
    resumed = fedpace("resume", "stopped", "--quiet")
    assert resumed.code == 2 and "older fedpace" in resumed.err
    assert len(resumed.err.strip().splitlines()) == 1


def test_its_finished_run_shows_its_result_again(fedpace: Any, old_home: Path) -> None:
    shown = fedpace("resume", "finished")
    assert shown.code == 0 and "fedbaca on digits" in shown.out, shown.err


def test_a_checkpoint_that_names_a_part_formerly_is_refused_in_one_line(tmp_path: Path) -> None:
    """`CompressedModel` was `Literal`: an experiment is known by its text, and that text is another one."""
    task = fedpace.tasks.load("digits", clients=5, model="softmax")
    run = partial(fedpace.simulate, fedpace.algorithms.fedbnlaca(steps=1), task, checkpoint=tmp_path)
    run(rounds=2)
    head, tree = checkpoint.read(tmp_path / checkpoint.CURRENT)
    head["experiment"]["algorithm"] = head["experiment"]["algorithm"].replace("CompressedModel", "Literal")
    (tmp_path / checkpoint.CURRENT).write_bytes(checkpoint.encode(tree, head))
    with pytest.raises(CheckpointError, match="belongs to another experiment, .*Literal") as refused:
        run(rounds=2)
    assert len(str(refused.value).splitlines()) == 1


def test_its_results_have_the_keys_of_todays(fedpace: Any, tmp_path: Path) -> None:
    ours = tmp_path / "ours.json"
    options = "--task digits --model softmax --clients 10 --rounds 3 --set steps=2 --quiet"
    assert fedpace("run", "fedbaca", *options.split(), "--json", ours).code == 0
    old, new = json.loads((WRITTEN / "finished.json").read_text()), json.loads(ours.read_text())
    assert old.keys() <= new.keys() and old["final"].keys() <= new["final"].keys()
    assert old["history"][0].keys() <= new["history"][0].keys()


def test_an_experiment_is_found_by_its_former_name() -> None:
    from fedpace.reproduce import experiment

    assert experiment("what-none-has") is experiment("combined-methods")
