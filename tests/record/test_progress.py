from __future__ import annotations

import io
import re

import numpy as np
import pytest
from rich.console import Console

from fedpace.record.run.progress import shown
from fedpace.sim.observer import StepRecord


def run_through(console: Console, rounds: int) -> None:
    with shown("fedgm on digits", rounds, console) as progress:
        for t in range(1, rounds + 1):
            metrics = {"loss": 1 / t, "accuracy": 1 - 1 / t} if t % 2 else {}
            progress.recorded(StepRecord(t, 2.0 * t, (0,), (0,), 1000, 500, metrics), np.zeros(1))


def test_a_log_file_gets_ten_plain_lines() -> None:
    out = io.StringIO()
    run_through(Console(file=out, width=40), rounds=200)
    lines = out.getvalue().splitlines()
    assert lines[0] == "fedgm on digits"
    assert [line.split()[1] for line in lines[1:]] == [f"{t}/200" for t in range(20, 201, 20)]
    assert (
        lines[1]
        == "  step  20/200  loss 0.0526  accuracy 0.9474 (at step 19)  40.0 s  20.0 kB up  10.0 kB down"
    )


def test_a_short_run_gets_one_line_per_round() -> None:
    out = io.StringIO()
    run_through(Console(file=out), rounds=3)
    assert len(out.getvalue().splitlines()) == 1 + 3


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_gets_a_bar_of_one_line_that_ends_full(width: int) -> None:
    out = io.StringIO()
    run_through(Console(file=out, force_terminal=True, color_system=None, width=width), rounds=500)
    plain = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", out.getvalue())
    last = [line for line in re.split(r"[\r\n]+", plain) if line][-1]
    assert "500/500 loss 0.0020  accuracy 0.9980 @499  1,000 s  ↑500 kB ↓250 kB" in last
    assert len(last) <= width


def test_own_metrics_are_shown_and_a_value_of_now_has_no_mark() -> None:
    out = io.StringIO()
    with shown("own", 2, Console(file=out, width=200)) as progress:
        progress.begun({"loss": 3.0, "auc": 0.5})
        for t, metrics in enumerate([{}, {"f1": 0.75, "auc": 0.5, "loss": 1.0}], start=1):
            progress.recorded(StepRecord(t, 1.0, (0,), (0,), 0, 0, metrics), np.zeros(1))
    first, last = out.getvalue().splitlines()[1:]
    assert "loss 3.0000  auc 0.5000 (at step 0)  1.00 s" in first
    assert "loss 1.0000  f1 0.7500  auc 0.5000  1.00 s" in last
