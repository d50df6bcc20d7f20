from __future__ import annotations

from pathlib import Path

import pytest

from fedpace.cli import main


def advise(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["advise", *words]) == 0
    return capsys.readouterr().out


def row(text: str, start: str) -> str:
    (found,) = [line for line in text.splitlines() if line.startswith(start)]
    return found


def test_bias_of_planned_steps(capsys: pytest.CaptureFixture[str]) -> None:
    """The worked numbers of N4 and section 13 (ii)."""
    text = advise(capsys, "--steps", "2,5,9", "--samples", "500,300,200", "--client-lr", "0.02")
    assert "0.4286   exact" in row(text, "chi-squared of shares")
    assert "4.3   exact" in row(text, "tau_eff")
    assert "0.03402   sufficient condition" in row(text, "client_lr up to")
    assert "0.8694   upper bound" in row(text, "mean squared gradient")
    assert "plain averaging is biased here: chi-squared 0.429" in text


def test_uniform_weighting_ignores_samples(capsys: pytest.CaptureFixture[str]) -> None:
    plain = advise(capsys, "--steps", "2,5,9")
    same = advise(capsys, "--steps", "2,5,9", "--samples", "500,300,200", "--weighting", "uniform")
    assert same == plain


def test_epochs_and_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    """Batches of 10: 1, 2 and 4 steps a pass; passes drawn from 1..3 are 2 on average."""
    fixed = advise(capsys, "--epochs", "2", "--samples", "10,20,40")
    drawn = advise(capsys, "--epochs", "1..3", "--samples", "10,20,40")
    assert row(drawn, "tau_eff") == row(fixed, "tau_eff")
    assert " 6   exact" in row(fixed, "tau_eff")  # (1 * 2 + 2 * 4 + 4 * 8) / 7


def test_equal_work_needs_no_fednova(capsys: pytest.CaptureFixture[str]) -> None:
    assert advise(capsys, "--steps", "5,5").endswith(
        "plain averaging is (almost) unbiased here: fedavg will do\n"
    )


def test_stage_table(capsys: pytest.CaptureFixture[str]) -> None:
    text = advise(capsys, "--server-lr", "2,1,0.5", "--rounds", "1000")
    assert "430-1000   0.5    0.973   0.9   16.2         285.5" in text
    assert "biased" not in text


def test_a_schedule_outside_the_theory_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    text = advise(capsys, "--server-lr", "1,2", "--delay", "3")
    assert "outside the theory: learning rates should not grow" in text
    assert "Theorem 5.1" in text


def test_the_picture_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    advise(capsys, "--steps", "1,3", "--picture", str(tmp_path / "bias.png"))
    assert (tmp_path / "bias.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "one of --steps, --epochs and --server-lr must be given; got none"),
        (["--epochs", "2"], "--epochs must come with --samples or --task; got neither"),
        (["--epochs", "0", "--samples", "1,2"], "--epochs must be a whole number >= 1; got '0'"),
        (["--steps", "2,x"], "--steps must be a whole number >= 1; got 'x'"),
        (
            ["--steps", "1,2", "--samples", "1,nan"],
            "--samples must be a number in [-1e+12, 1e+12]; got 'nan'",
        ),
        (["--steps", "1,2", "--samples", "1,2,3"], "p must be 2 shares, one per client; got 3"),
        (["--steps", "1,2", "--momentum", "-0.1"], "SGD.momentum must be in [0, 1); got -0.1"),
        (
            ["--steps", "1,2", "--clients-per-round", "5"],
            "clients per round must be between 1 and the 2 clients",
        ),
        (["--server-lr", "0"], "lrs must be learning rates > 0; got 0.0"),
        (["--server-lr", "1", "--beta", "1.2"], "Momentum.beta must be in [0, 1); got 1.2"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_an_unwritable_picture_is_refused_before_anything_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", "--steps", "1,2", "--picture", str(tmp_path / "no" / "bias.png")]) == 2
    captured = capsys.readouterr()
    assert "--picture must be a file that can be written" in captured.err
    assert captured.out == ""
