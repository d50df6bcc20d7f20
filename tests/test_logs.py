"""Python logging under the name `fedpace`."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import fedpace
from fedpace import Stop
from fedpace.algorithms import fedavg
from fedpace.cli import main

SOURCE = Path(__file__).parents[1] / "src"
TASK = fedpace.tasks.quadratics([0.0, 2.0], weights=[1, 1])
RULE = fedavg(client_lr=0.1, steps=1)


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_a_run_says_when_it_begins_is_evaluated_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="fedpace"):
        run = fedpace.simulate(RULE, TASK, rounds=3, evaluate_every=2, seed=4)
    said = lines(caplog, logging.INFO)
    assert {record.name for record in caplog.records} == {"fedpace"}
    label = "fedavg on quadratics, 2 clients, seed 4"
    assert said[0].startswith(f"{label}: begun, loss ")
    assert [line.partition(", loss")[0] for line in said[1:3]] == [
        f"{label}: step 2 of 3, 2.00 s",
        f"{label}: step 3 of 3, 3.00 s",
    ]
    assert said[3] == str(run) and len(said) == 4
    assert lines(caplog, logging.DEBUG) == [f"{label}: step 1 of 3, 1.00 s"]


def test_checkpoints_resumes_and_stops_are_told(tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    class Early(fedpace.sim.Observer):
        def recorded(self, record, x) -> None:
            if record.version == 2:
                raise Stop("enough")

    with caplog.at_level(logging.DEBUG, logger="fedpace"):
        fedpace.simulate(RULE, TASK, rounds=3, checkpoint=tmp_path, observers=[Early()])
        fedpace.simulate(RULE, TASK, rounds=3, checkpoint=tmp_path)
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert f"checkpoint after step 2 in {tmp_path}" in text
    assert "(enough)" in text and "resumed after step 2 of 3" in text


def test_warnings_are_lines_of_the_log_and_stay_warnings(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.warns(UserWarning, match="Momentum.nu is usually") as seen:
        fedpace.server_opt.Momentum(nu=2.0)
    assert lines(caplog, logging.WARNING) == [str(seen[0].message)]
    assert Path(seen[0].filename) == Path(__file__)


def test_errors_and_notes_of_the_command_line_are_told_too(tmp_path, monkeypatch, caplog, capsys) -> None:
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path))
    words = ["run", "fedavg", "--clients", "4", "--partition", "dirichlet:0.1", "--rounds", "3", "--set"]
    assert main([*words, "epochs=2"]) == 0
    notes = [line.removeprefix("note: ") for line in capsys.readouterr().out.splitlines() if "note: " in line]
    assert notes and lines(caplog, logging.WARNING) == notes


def test_it_is_silent_unless_it_is_asked_for() -> None:
    code = (
        "import fedpace, warnings; warnings.simplefilter('ignore')\n"
        "fedpace.server_opt.Momentum(nu=2.0)\n"
        "task = fedpace.tasks.quadratics([0.0, 2.0])\n"
        "fedpace.simulate(fedpace.algorithms.fedavg(client_lr=0.1, steps=1), task, rounds=1)"
    )
    env = {"PYTHONPATH": str(SOURCE), "PATH": ""}
    said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert (said.stdout, said.stderr) == ("", "")
