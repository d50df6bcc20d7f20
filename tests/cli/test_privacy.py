"""`--dp` on the command line."""

import json
import re

import pytest

from fedpace.cli import arguments, main
from fedpace.record.store.store import Store

pytest.importorskip("dp_accounting", reason="pip install 'fedpace[privacy]'")
POISSON = ["--set", "clients_per_round=4", "--set", "select=poisson", "--set", "steps=1", "--clients", "20"]
QUIET = ["--evaluate-every", "9", "--workers", "1"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path))


def written(tmp_path, *words):
    assert main(["run", "fedavg", *POISSON, *QUIET, "--json", str(tmp_path / "run.json"), *words]) == 0
    return json.loads((tmp_path / "run.json").read_text())


def test_a_budget_finds_its_noise(tmp_path, capsys):
    run = written(tmp_path, "--rounds", "3", "--dp", "epsilon=8,delta=1e-6")
    assert 7.9 < run["privacy"]["epsilon"] <= 8 and run["privacy"]["delta"] == 1e-6
    assert run["privacy"]["noise_multiplier"] > 0 and len(run["history"]) == 3
    assert re.search(r"privacy +\(7\.9\d+, 1e-06\)-DP, add-or-remove, PLD", capsys.readouterr().out)


def test_noise_reports_its_epsilon_step_by_step(tmp_path):
    run = written(tmp_path, "--rounds", "2", "--dp", "noise=2,clip=0.5,delta=1e-6")
    spent = [step["epsilon"] for step in run["history"]]
    assert spent[0] < spent[1] == run["privacy"]["epsilon"] and run["privacy"]["clip"] == 0.5


def test_a_run_that_spent_its_budget_ends_with_success(tmp_path, capsys):
    run = written(tmp_path, "--rounds", "30", "--dp", "noise=2,epsilon=1,delta=0.01")
    assert len(run["history"]) < 30
    assert "the budget of epsilon 1 allows" in capsys.readouterr().err


def test_a_private_run_is_made_again_with_its_privacy():
    words = [*POISSON, *QUIET, "--rounds", "2", "--dp", "noise=2,delta=0.01"]
    assert main(["run", "fedavg", *words, "--name", "mine", "--quiet"]) == 0
    entry = Store().find("mine")
    assert arguments.parse(entry.arguments).dp == "noise=2,delta=0.01"
    assert entry.summary["privacy"]["uses"] == 2


def test_compare_says_what_all_runs_cost_together(capsys):
    words = [*POISSON, *QUIET, "--rounds", "2", "--dp", "noise=2,delta=0.01", "--no-store", "--quiet"]
    assert main(["compare", "fedavg", "fedavgm", *words]) == 0
    out = capsys.readouterr().out
    assert "epsilon" in out and "2 runs together: (" in out


@pytest.mark.parametrize(
    ("dp", "said"),
    [
        ("epsilon", "name=value"),
        ("sigma=1", "one of"),
        ("clip=-1", "> 0"),
        ("delta=1e-6", "a budget, epsilon=8, or a noise multiplier"),
    ],
)
def test_words_that_make_no_rule_are_refused(dp, said, capsys):
    assert main(["run", "fedavg", "--dp", dp]) == 2
    assert said in capsys.readouterr().err


def test_what_privacy_refuses_is_refused_here_too(capsys):
    assert main(["run", "ca2fl", "--rounds", "1", "--dp", "noise=1"]) == 2
    assert "cached" in capsys.readouterr().err


def test_an_experiment_file_keeps_the_privacy(tmp_path):
    file = str(tmp_path / "private.toml")
    run = written(tmp_path, "--rounds", "2", "--dp", "noise=2,delta=0.01", "--save-as", file)
    assert 'dp = "noise=2,delta=0.01"' in (tmp_path / "private.toml").read_text(encoding="utf-8")
    assert main(["run", file, "--json", str(tmp_path / "again.json"), "--quiet"]) == 0
    assert json.loads((tmp_path / "again.json").read_text())["privacy"] == run["privacy"]


def test_a_sweep_says_what_its_runs_cost_together(capsys):
    words = [
        *POISSON,
        *QUIET,
        "--rounds",
        "1",
        "--dp",
        "noise=2,delta=0.01",
        "--no-store",
        "--processes",
        "1",
    ]
    assert main(["sweep", "fedavg", *words, "--grid", "client_lr=0.1,0.2"]) == 0
    assert "2 runs together: (" in capsys.readouterr().out
