from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from fedpace.record.progress import shown
from fedpace.sim.recorder import StepRecord


def run_through(console: Console, rounds: int) -> None:
    with shown("fedgm on digits", rounds, console) as watcher:
        for t in range(1, rounds + 1):
            metrics = {"loss": 1 / t, "accuracy": 1 - 1 / t} if t % 2 else {}
            watcher.step(StepRecord(t, 2.0 * t, (0,), (0,), 1000, 500, metrics), np.zeros(1))


def test_a_log_file_gets_ten_plain_lines() -> None:
    out = io.StringIO()
    run_through(Console(file=out, width=40), rounds=200)
    lines = out.getvalue().splitlines()
    assert lines[0] == "fedgm on digits"
    assert [line.split()[1] for line in lines[1:]] == [f"{t}/200" for t in range(20, 201, 20)]
    assert lines[1] == "  round  20/200  loss 0.0526  accuracy 0.9474  40.0 s  20.0 kB up  10.0 kB down"


def test_a_short_run_gets_one_line_per_round() -> None:
    out = io.StringIO()
    run_through(Console(file=out), rounds=3)
    assert len(out.getvalue().splitlines()) == 1 + 3


def test_a_terminal_gets_a_bar_that_ends_full() -> None:
    out = io.StringIO()
    run_through(Console(file=out, force_terminal=True, width=120), rounds=5)
    assert "5/5" in out.getvalue() and "accuracy 0.8000" in out.getvalue()
