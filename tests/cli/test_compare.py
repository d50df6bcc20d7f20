from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedpace.algorithms import fedavg
from fedpace.record import Run
from fedpace.record.report.compare import reached
from fedpace.sim.observer import StepRecord
from fedpace.vector import Layout

SMALL = ("--clients", 10, "--model", "softmax", "--rounds", 4, "--quiet")


@pytest.fixture
def run() -> Run:
    """Accuracy 0.2, 0.4, (not evaluated), 0.8; loss the other way round."""
    learned = [0.2, 0.4, None, 0.8]
    history = [
        StepRecord(t, 2.0 * t, (0,), (0,), 10, 5, {} if a is None else {"accuracy": a, "loss": 1 - a})
        for t, a in enumerate(learned, start=1)
    ]
    return Run(
        algorithm=fedavg(),
        task="digits",
        seed=0,
        rounds=4,
        history=history,
        model=np.zeros(1),
        layout=Layout.of({"x": (1,)}),
    )


@pytest.mark.parametrize(("goal", "steps"), [(0.1, 1), (0.4, 2), (0.41, 4)])
def test_the_goal_is_reached_at_the_first_step_that_shows_it(run: Run, goal: float, steps: int) -> None:
    for metric, value in (("accuracy", goal), ("loss", 1 - goal)):
        there = reached(run, (metric, value))
        assert there is not None
        assert (len(there.history), there.virtual_seconds, there.bytes_up) == (steps, 2.0 * steps, 10 * steps)


def test_a_goal_that_was_not_reached(run: Run) -> None:
    assert reached(run, ("accuracy", 0.9)) is None
    assert reached(replace(run, history=[]), ("accuracy", 0.1)) is None


def test_one_row_per_algorithm_and_one_picture(fedpace, tmp_path) -> None:
    said = fedpace(
        "compare", "fedavg", "fedsgd", *SMALL, "--target", "accuracy=0.99", "--plot", tmp_path / "p.png"
    )
    assert said.code == 0 and said.err == ""
    rows = [line.split() for line in said.out.splitlines()]
    assert [row[0] for row in rows if row and row[0] in ("fedavg", "fedsgd")] == ["fedavg", "fedsgd"]
    assert "server steps, time and traffic to reach accuracy 0.99" in said.out
    assert said.out.count("not reached") == 2
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_several_seeds_are_means_with_a_spread(fedpace) -> None:
    said = fedpace("compare", "fedavg", *SMALL, "--seeds", 2)
    [row] = [line for line in said.out.splitlines() if line.startswith("fedavg")]
    assert (
        row.count("±") == 1 and " to 1.000)" in row
    )  # with two seeds the interval would exceed an accuracy of 1
    assert "clipped to [0, 1]" in said.out


def test_several_seeds_are_compared_with_the_baseline_and_written(fedpace, tmp_path) -> None:
    files = {name: tmp_path / f"t.{name}" for name in ("latex", "markdown", "csv", "report")}
    words = [word for name, path in files.items() for word in (f"--{name}", path)]
    said = fedpace(
        "compare",
        "fedavg",
        "fedsgd",
        *SMALL,
        "--seeds",
        2,
        "--baseline",
        "fedsgd",
        "--name",
        "two/rows",
        *words,
    )
    assert said.code == 0 and "accuracy minus fedsgd's" in said.out and "Holm" in said.out
    assert r"\begin{tabular}" in files["latex"].read_text()
    assert files["markdown"].read_text().startswith("|  | accuracy |")
    assert files["csv"].read_text().count("\n") == 5  # a header, two rows of two seeds
    assert "fedsgd" in files["report"].read_text()
    assert "two/rows/fedsgd/1" in fedpace("runs").out
    assert fedpace("report", "two/rows", "-o", tmp_path / "again.html").code == 0
    assert fedpace("resume", "two/rows/fedavg/0", "--quiet").code == 0
    assert fedpace("runs", "delete", "two").code == 0 and "no saved runs" in fedpace("runs").out


def test_an_algorithm_that_diverges_does_not_stop_the_others(fedpace) -> None:
    words = ("--clients", 10, "--model", "mlp", "--rounds", 4, "--quiet")
    said = fedpace("compare", "fedavg", "fedgm", *words, "--set", "fedavg.server_lr=1e15")
    assert said.code == 0
    assert said.err.startswith("fedpace compare: fedavg, seed 0: ") and said.err.count("\n") == 1
    assert [line.split()[0] for line in said.out.splitlines()[2:4]] == ["fedavg", "fedgm"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "accuracy"], "--target must be METRIC=VALUE such as accuracy=0.8; got 'accuracy'"),
        (
            ["--target", "acuracy=0.9"],
            "did you mean accuracy? target metric must be one of accuracy, ",
        ),
        (["--target", "accuracy=90"], "--target accuracy must be in [0, 1], such as 0.9; got 90"),
        (["--set", "bufer=3"], "parameter of fedavg must be one of "),
        (["--seeds", "0"], "--seeds must be a whole number >= 1; got '0'"),
        (["--plot", "p.gif"], "--plot must be a file that ends in .png, .svg, .pdf; got 'p.gif'"),
    ],
)
def test_bad_input_is_one_line(fedpace, words: list[str], message: str) -> None:
    said = fedpace("compare", "fedavg", *SMALL, *words)
    assert said.code == 2 and said.out == ""
    assert said.err.startswith(f"fedpace compare: {message}") and said.err.count("\n") == 1
