from __future__ import annotations

import re
from pathlib import Path

import pytest

from fedpace.cli import main


def advise(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["advise", *words]) == 0
    return capsys.readouterr().out


def squeezed(text: str) -> str:
    """Without columns and line ends."""
    return " ".join(text.split())


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
        "plain averaging is (almost) consistent here: fedavg suffices\n"
    )


def test_stage_table(capsys: pytest.CaptureFixture[str]) -> None:
    text = advise(capsys, "--server-lr", "2,1,0.5", "--rounds", "1000")
    assert "430-1000   0.5    0.973   0.9   16.2         285.5" in text
    assert "biased" not in text


def test_a_schedule_outside_the_theory_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    text = advise(capsys, "--server-lr", "1,2", "--delay", "3")
    assert "outside the theory: learning rates should not grow" in text
    assert "Theorem 5.1" in text


def test_delay_enters_stability_and_recommendation(capsys: pytest.CaptureFixture[str]) -> None:
    """beta .95, nu .7: 2.31 instead of 6.29 with delays uniform on 0..4."""
    momentum = ("--server-lr", "3", "--beta", "0.95", "--nu", "0.7", "--clients", "1000", "--client-lr", "1")
    text = advise(capsys, *momentum, "--delay", "4")
    assert "2.31" in row(text, " 1-100")
    assert "2.31   mean stability" in row(text, "server_lr times c, stable below")
    assert "recommended: server_lr up to 1.15 in these stages" in text
    assert "3 is above it" in squeezed(text)
    assert "recommended: server_lr up to 3.15 in these stages" in advise(capsys, *momentum)


def test_random_epochs_use_the_worst_draw(capsys: pytest.CaptureFixture[str]) -> None:
    """(152): 0.00290, and A = 1.473, the mean over the rounds."""
    sizes = ("--samples", "400,200,100,100", "--batch-size", "20")
    text = advise(capsys, "--epochs", "2..5", *sizes)
    assert "0.002901   sufficient condition" in row(text, "client_lr up to")
    assert "1.473   exact" in row(text, "A, variance")
    late = advise(capsys, "--epochs", "2..5", *sizes, "--server-lr", "1", "--delay", "2")
    assert "Corollary 5.4 (G.1)" in late


NAMED = {
    "fedbuff": (
        ["buffer=10", "concurrency=20"],
        "mean staleness, in the long run 1 exact Mc/M - 1",
    ),
    "ca2fl": (["buffer=5", "concurrency=20"], "Theorem B.7"),
    "mf_ca2fl": (["buffer=5", "concurrency=20"], "noise, times what quantising adds"),
    "defedavg_niid": (["draws=10"], "chance of a client to be drawn in a step 0.4013 exact"),
    "defedavg_iid": (["buffer=4"], "DeFedAvg, (13)"),
    "fedbnlaca": (["clients_per_round=10"], "Theorem E.1"),
    "fedbaca": ([], "Theorem 4.6"),
    "fednlaca": ([], "Theorem A.1"),
    "fedaa": (["clients_per_round=10"], "Theorem 4.4"),
    "fedams": ([], "Theorem 4.1"),
    "multistage_fedgm": (["clients_per_round=10"], "Corollary 4.7"),
    "fedgm": ([], "Corollary 4.4"),
    "autonomous_fedgm": (
        ["history=10", "clients_per_round=5", "beta=0.95", "nu=0.7"],
        "0.8076 mean stability",
    ),
    "fednova": (["clients_per_round=5", "tau_eff=sampled"], "note: tau_eff of the sampled clients is large"),
    "fedprox": ([], "Theorem 2, (113)"),
    "scaffold": ([], "note: none of the five papers has a theorem about this algorithm"),
}


@pytest.mark.parametrize(("name", "settings", "said"), [(name, *rest) for name, rest in NAMED.items()])
def test_every_papers_algorithm(
    name: str, settings: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for setting in ("steps=3", *settings) for word in ("--set", setting)]
    text = advise(capsys, name, "--clients", "20", *words)
    assert said in squeezed(text)
    assert "recommended: client_lr" in text


def test_rows_of_a_named_algorithm_all_have_a_label(capsys: pytest.CaptureFixture[str]) -> None:
    text = advise(capsys, "ca2fl", "--clients", "20", "--set", "steps=3", "--set", "buffer=5")
    labels = (
        "exact", "sufficient condition", "upper bound", "order of magnitude", "mean stability", "measured",
        "assumed", "recommended",
    )  # fmt: skip
    numbered = [line for line in text.splitlines() if re.search(r"\S {2,}[\d.e+-]+ {2,}\S", line)]
    assert len(numbered) > 20
    assert all(any(f"   {word}" in line for word in labels) for line in numbered)


def test_options_are_parameters_of_the_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    given = advise(
        capsys, "fedgm", "--clients", "9", "--set", "steps=4", "--set", "client_lr=0.02", "--set", "beta=0.5"
    )
    same = advise(capsys, "fedgm", "--samples", ",".join("1" * 9), "--steps", "4" + ",4" * 8, "--client-lr", "0.02",
                  "--beta", "0.5")  # fmt: skip
    assert same == given
    assert "now client_lr 0.02, server_lr 1" in given


def test_estimates_say_how_they_were_found(capsys: pytest.CaptureFixture[str]) -> None:
    text = advise(capsys, "fedbnlaca", "--task", "digits", "--clients", "3", "--estimate", "--noise", "2")
    assert "measured largest curvature after 10 power steps, 3 of 3" in squeezed(text)
    for name in ("sigma_g²", "nu²", "G²", "F_0", "H,", "q_C", "gamma", "lambda"):
        assert "   measured   " in row(text, name)
    assert "2   assumed    given" in row(text, "noise, sigma²")
    cached = advise(
        capsys, "mf_ca2fl", "--task", "digits", "--clients", "3", "--estimate", "--set", "steps=2"
    )
    assert "measured one client's update" in squeezed(cached)


def test_the_bound_beside_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run stays below the bound, at rates within its condition."""
    for name, more in (("fedgm", ()), ("multistage_fedgm", ()), ("fedbuff", ("--set", "buffer=2"))):
        file, work = tmp_path / f"{name}.png", ("--set", "steps=2", *more)
        text = advise(
            capsys, name, "--task", "digits", "--clients", "3", "--rounds", "12", *work, "--plot", str(file)
        )
        assert file.read_bytes().startswith(b"\x89PNG")
        found = re.search(
            r"mean squared gradient ([\d.e+-]+) at client_lr [\d.e+-]+, bound ([\d.e+-]+)", squeezed(text)
        )
        assert found is not None
        assert float(found[1]) < float(found[2])


def test_shares_of_a_named_algorithm_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("fednova", "--samples", "5,3,2", "--steps", "1,2,20", "--picture", str(tmp_path / "bias.png"))
    assert "5.1   exact" in row(advise(capsys, *words), "tau_eff")
    assert (tmp_path / "bias.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    advise(capsys, "--steps", "1,3", "--plot", str(tmp_path / "bias.png"))
    assert (tmp_path / "bias.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "ALGORITHM or one of --steps, --epochs and --server-lr must be given; got none"),
        (["--server-lr", "2,1", "--plot", "a.png"], "--plot must come with ALGORITHM, --steps or --epochs"),
        (["--estimate"], "--estimate must come with an algorithm, as in `fedpace advise fedgm`; got none"),
        (["--set", "beta=0.5"], "--set must come with an algorithm, as in `fedpace advise fedgm`; got none"),
        (["fedgmm"], "algorithm must be one of"),
        (["fedgm"], "local steps must be known: give --task, --samples or --set steps=K; got epochs and"),
        (
            ["fedgm", "--set", "steps=5", "--estimate"],
            "--estimate needs --task to measure on",
        ),
        (
            ["fedgm", "--set", "steps=5", "--plot", "a.png"],
            "--plot needs --task to measure on",
        ),
        (
            ["fedasync", "--set", "steps=5"],
            "algorithm must be one whose server adds up updates, not models; got 'fedasync'",
        ),
        (
            ["fedgm", "--set", "steps=[1, 2]"],
            "steps must have an entry for each of the 100 clients; got fewer",
        ),
        (
            ["fedgm", "--set", "steps=5", "--delay", "3"],
            "--delay must come without an algorithm, whose own rules decide it; got both",
        ),
        (["--server-lr", "1", "--delay", "x"], "--delay must be a whole number >= 0; got 'x'"),
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
