from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fedpace.cli import main
from fedpace.errors import ConfigError
from fedpace.reproduce import NAMES, evidence

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_list_shows_every_experiment(capsys) -> None:
    assert main(["reproduce", "list"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in NAMES)


def test_an_unknown_name_is_one_line_and_exit_code_2(capsys) -> None:
    assert main(["reproduce", "nothing"]) == 2
    assert capsys.readouterr().err.startswith("fedpace reproduce: experiment must be one of")


def test_a_reproduction_says_what_it_costs_runs_and_writes_its_page(capsys, tmp_path) -> None:
    words = ["reproduce", "objective-inconsistency", "--only", "general FedAvg", "--seeds", "1"]
    where = ["--keep", str(tmp_path / "kept"), "--out", str(tmp_path / "results")]
    assert main([*words, *where]) == 0
    said = capsys.readouterr()
    assert "1 runs, at most 400 server steps" in said.err
    assert "general FedAvg, seed 0: finished after 400 steps" in said.err
    assert "not run" in said.out
    assert (tmp_path / "results" / "objective-inconsistency" / "README.md").exists()
    assert (tmp_path / "results" / "README.md").exists()
    assert main([*words, *where]) == 0
    assert "all runs are finished" in capsys.readouterr().err


def test_an_estimate_runs_nothing(capsys, tmp_path) -> None:
    words = ["reproduce", "ca2fl-delay", "--only", "U(0,1), base 0", "--estimate"]
    assert main([*words, "--keep", str(tmp_path), "--out", str(tmp_path / "results")]) == 0
    assert "5 runs, at most 2,500 server steps" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_verdicts_are_judged_again_from_committed_files_alone(capsys, tmp_path) -> None:
    here = tmp_path / "ca2fl-delay"
    here.mkdir()
    for name in ("verdicts.json", "quick-claims.csv", "README.md"):
        shutil.copy(RESULTS / "ca2fl-delay" / name, here)
    wrong = json.loads((here / "verdicts.json").read_text())
    wrong["quick"][1] |= {"verdict": "undecided", "p": None, "seeds": 0}
    (here / "verdicts.json").write_text(json.dumps(wrong))
    assert main(["reproduce", "ca2fl-delay", "--verdicts", "--out", str(tmp_path)]) == 0
    assert "reproduced    mean staleness as printed, within 5%: Mc=15 M=10" in capsys.readouterr().out
    for name in ("verdicts.json", "README.md"):
        assert (here / name).read_text() == (RESULTS / "ca2fl-delay" / name).read_text()


@pytest.mark.parametrize("name", sorted(path.parent.name for path in RESULTS.glob("*/verdicts.json")))
def test_committed_verdicts_follow_from_their_committed_values(name: str) -> None:
    for edition, committed in evidence.read_verdicts(RESULTS / name).items():
        if (RESULTS / name / evidence.table_name(edition)).exists():
            again = evidence.rejudged(RESULTS / name, edition)
            assert [found.verdict for found in again] == [found.verdict for found in committed]
            assert [found.p for found in again] == [
                None if found.p is None else pytest.approx(found.p, rel=1e-3, abs=1e-9) for found in committed
            ]


def test_the_cost_of_a_tuning_can_be_estimated(capsys, tmp_path) -> None:
    words = ["reproduce", "objective-inconsistency", "--tune", "--estimate", "--keep", str(tmp_path)]
    assert main(words) == 0
    assert "objective-inconsistency (quick), tuning: nothing to run" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_tuning_that_is_committed_whole_has_nothing_left_to_run(capsys, tmp_path) -> None:
    words = ["reproduce", "fednova-heterogeneous", "--tune", "--extend", "--estimate"]
    assert main([*words, "--out", str(RESULTS), "--keep", str(tmp_path)]) == 0
    assert "fednova-heterogeneous (quick), tuning: nothing to run" in capsys.readouterr().err


def test_an_estimate_names_missing_data_and_goes_on(capsys, tmp_path, monkeypatch) -> None:
    def missing(what: object, seed: int) -> None:
        raise ConfigError("cifar10 is not downloaded")

    monkeypatch.setattr("fedpace.reproduce.cell._loaded", missing)
    words = ["reproduce", "ca2fl-sensitivity", "ca2fl-delay", "--only", "Mc=20 M=10 5 for all", "--estimate"]
    assert main([*words, "--seeds", "2", "--keep", str(tmp_path), "--out", str(tmp_path / "results")]) == 0
    said = capsys.readouterr().err.splitlines()
    assert "ca2fl-sensitivity (quick): 0 runs, at most 0 server steps" in said[1]
    assert said[1].endswith("8 more not timed: cifar10 is not downloaded")
    assert "ca2fl-delay (quick): 6 runs, at most 3,000 server steps" in said[3]
    assert said[4].startswith("together: 6 runs") and said[4].endswith(
        "8 more not timed: cifar10 is not downloaded"
    )


def test_a_committed_page_is_extended_by_its_own_runs(capsys, tmp_path) -> None:
    """Another checkout has the page, not the finished runs: with --extend none of the page's is run again."""
    words = ["reproduce", "ca2fl-delay", "--only", "U(0,1), base 0", "--out", str(tmp_path)]
    assert main([*words, "--seeds", "1", "--keep", str(tmp_path / "first")]) == 0
    page = (tmp_path / "ca2fl-delay" / "README.md").read_text()
    capsys.readouterr()
    elsewhere = [*words, "--keep", str(tmp_path / "second")]
    assert main([*elsewhere, "--seeds", "1", "--extend"]) == 0
    assert "all runs are finished" in capsys.readouterr().err
    assert (tmp_path / "ca2fl-delay" / "README.md").read_text() == page
    assert main([*elsewhere, "--seeds", "2", "--extend", "--estimate"]) == 0
    assert "1 runs" in capsys.readouterr().err
    assert main([*elsewhere, "--seeds", "2", "--estimate"]) == 0
    assert "2 runs" in capsys.readouterr().err


def test_an_archive_that_is_none_is_one_line(capsys, tmp_path) -> None:
    here = tmp_path / "ca2fl-delay"
    here.mkdir()
    (here / "quick-runs.jsonl.xz").write_bytes(b"not one")
    words = ["reproduce", "ca2fl-delay", "--extend", "--report", "--out", str(tmp_path)]
    assert main([*words, "--keep", str(tmp_path / "kept")]) == 2
    assert "must be an archive of finished runs; got" in capsys.readouterr().err
