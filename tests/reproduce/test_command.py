from __future__ import annotations

from fedpace.cli import main
from fedpace.reproduce import NAMES


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
