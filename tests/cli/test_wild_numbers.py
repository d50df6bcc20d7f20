"""Numbers that nobody can mean: refused in one line before anything is computed, whatever takes them."""

from __future__ import annotations

import argparse
import inspect
import warnings
from collections.abc import Iterator
from contextlib import suppress

import pytest

from fedpace import algorithms
from fedpace.cli import VERBS
from fedpace.cli.entry import parser_of
from fedpace.cli.settings import parse_value
from fedpace.cli.verbs.sweep import axis
from fedpace.errors import ConfigError, require_count, require_number

HUGE, DIGITS = str(10**400), "9" * 5000
WILD = ("inf", "-inf", "nan", "1e300", "1e400", "-1e300", HUGE, DIGITS, "abc", "", " ", "0x10", "1_0")
EXPERIMENT = ("--task", "digits", "--clients", "5", "--rounds", "2", "--workers", "1", "--no-store")


def options(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, argparse.Action]]:
    """Every option, those of actions such as `data show` included."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from options(inner)
        elif action.option_strings:
            yield parser, action


def is_numeric(action: argparse.Action) -> bool:
    module = getattr(action.type, "__module__", "")
    return module in ("fedpace.cli.parser", "fedpace.cli.advise")


NUMERIC = {
    f"{verb} {action.option_strings[-1]}": action
    for verb in VERBS
    for _, action in options(parser_of(verb))
    if is_numeric(action)
}


def test_all_numeric_options_are_known_to_these_tests() -> None:
    assert len(NUMERIC) >= 40
    plain = [
        f"{verb} {action.option_strings[-1]}"
        for verb in VERBS
        for _, action in options(parser_of(verb))
        if action.type in (int, float)
    ]
    assert plain == []  # int and float take 10**400, inf and nan


@pytest.mark.parametrize("text", [text for text in WILD if text != "1_0"])
@pytest.mark.parametrize("option", NUMERIC)
def test_no_option_takes_a_wild_number(option: str, text: str) -> None:
    read = NUMERIC[option].type
    assert callable(read)
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        read(text)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["--set", "steps=99999999999"],
            "--set steps: whole numbers must be in -2147483647..2147483647; got .*",
        ),
        (["--set", "steps=20000000"], "SGD.steps must be a whole number in 1..10000000; got 20000000"),
        (["--set", "epochs=99999999"], "SGD.epochs must be a whole number in 1..10000000; got 99999999"),
        (["--set", "epochs=9999999"], "local steps of a session must be .* in 1..10000000; got 289999971"),
        (["--set", "epochs=1..99999999999"], "--set epochs: whole numbers must be in .*"),
        (["--set", f"batch_size={HUGE}"], "--set batch_size: whole numbers must be in .*"),
        (
            ["--set", f"batch_size={DIGITS}"],
            "--set batch_size: value must be a number, .* .5,002 characters.",
        ),
        (["--set", "client_lr=1e400"], "--set client_lr: numbers must be finite; got inf"),
        (["--set", "client_lr=-1e400"], "--set client_lr: numbers must be finite; got -inf"),
        (["--set", "client_lr=[0.1, 1e400]"], "--set client_lr: numbers must be finite; got inf"),
        (["--set", "client_lr=nan"], "client_lr must be a number > 0; got 'nan'"),
        (["--rounds", "99999999999"], "--rounds must be a whole number in 1..2147483647; got '99999999999'"),
        (["--workers", "99999999"], "--workers must be a whole number in 1..1024; got '99999999'"),
        (
            ["--clients", HUGE],
            r"--clients must be a whole number in 1..2147483647; got '10*\.\.\. .403 char.*",
        ),
        (["--seed", str(2**63)], f"--seed must be a whole number in 0..{2**63 - 1}; got '{2**63}'"),
        (
            ["--evaluate-every", DIGITS],
            "evaluate_every must be steps .10., .*; got '9*... .5,002 characters.",
        ),
        (["--evaluate-every", f"{DIGITS}s"], "evaluate_every must be > 0; got inf"),
        (["--checkpoint-every", DIGITS], "checkpoint every must be steps .*; got '9*... .5,002 characters."),
        (["--checkpoint-every", f"{DIGITS}s"], "checkpoint every must be > 0 seconds; got inf"),
        (["--population", "half-normal:1e400"], "--population must be .*; got 'half-normal:1e400'"),
        (["--population", "uniform-slowdown:1,1e300"], "--population must be .*"),
        (["--partition", f"classes:{DIGITS}"], "partition must look like classes:K; got .*"),
        (["--partition", "dirichlet:inf"], "Dirichlet.alpha must be > 0; got inf"),
        (["--model", f"mlp:{HUGE}"], "model must be a name, or mlp, .*; got 'mlp:10*... .407 characters."),
        (["--task", "synthetic:1e400,1"], "synthetic alpha must be >= 0; got inf"),
        (
            ["--task", "synthetic", "--clients", "99999999"],
            "devices of synthetic must be .* in 1..100000; .*",
        ),
    ],
)
def test_run_refuses_them_in_one_line(fedpace, words: list[str], line: str) -> None:
    import re

    said = fedpace("run", "fedavg", *EXPERIMENT, "--quiet", *words)
    assert (said.code, said.out) == (2, "")
    assert re.fullmatch(f"fedpace run: {line}\n", said.err), said.err


def test_the_threshold_of_lag_may_be_squared(fedpace) -> None:
    said = fedpace("run", "lag", *EXPERIMENT, "--quiet", "--set", "tau=1e300")
    assert (said.code, said.err) == (2, "fedpace run: Lazy.tau must be in [0, 1e+100]; got 1e+300\n")
    assert fedpace("run", "lag", *EXPERIMENT, "--quiet", "--set", "tau=1e100").code == 0


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["autonomous_fedgm", "--set", "concurrency=5", "--set", "buffer=2147483647"], "buffer"),
        (["defedavg_iid", "--set", "reuse_model=true", "--set", "buffer=2147483647"], "buffer"),
        (["defedavg_niid", "--set", "draws=2147483647"], "draws"),
        (
            ["fedavg", "--set", "select=replacement", "--set", "clients_per_round=2147483647"],
            "clients_per_round",
        ),
    ],
)
def test_no_server_step_is_endless(fedpace, words: list[str], what: str) -> None:
    said = fedpace("run", *words, *EXPERIMENT, "--quiet")
    line = f"fedpace run: {what} must be <= 1,000 times the number of clients (5); got 2147483647\n"
    assert (said.code, said.out, said.err) == (2, "", line)


@pytest.mark.parametrize(
    "text",
    [
        "0:1e9:1e-9",
        "0.1:inf:1",
        "0:nan:1",
        "nan:nan:nan",
        "0:1:sNaN",
        "0:1:1e-999999",
        "0:1e999999:1",
        f"0:{HUGE}:1",
        "1e999999:2e999999:1e999998",
        "0:10000:1",
        "0:1:0",
        "1:0:1",
        "99999999999",
        "1e400",
    ],
)
def test_no_axis_of_a_grid_is_endless(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        axis(f"beta={text}")
    assert str(refused.value).startswith("beta: ") and len(str(refused.value)) < 400


def test_an_axis_may_have_ten_thousand_values_and_a_grid_a_hundred_thousand(fedpace) -> None:
    assert axis("beta=1:10000:1")[1] == list(range(1, 10_001))
    grid = ["beta=0:0.5:0.001", "nu=0:0.5:0.001"]
    said = fedpace("sweep", "fedgm", "--grid", *grid, *EXPERIMENT, "--quiet")
    assert (said.code, said.err) == (
        2,
        "fedpace sweep: grid must be at most 100,000 combinations; got 251001\n",
    )


@pytest.mark.parametrize(
    "goal", ["accuracy=nan", "loss=inf", "accuracy=1.5", "accuracy=-1", "loss=1e400", "loss="]
)
def test_a_goal_is_a_number(fedpace, goal: str) -> None:
    said = fedpace("compare", "fedavg", *EXPERIMENT, "--target", goal)
    assert said.code == 2 and said.err.startswith("fedpace compare: --target ") and said.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--delay=-1"],
        ["--delay=1e300"],
        ["--epochs=1..99999999999", "--samples", "500,300"],
        ["--client-lr=1e300"],
        ["--smoothness=1e300"],
        ["--rounds", HUGE],
        ["--nu=-1"],
    ],
)
def test_advice_is_not_computed_from_them(fedpace, words: list[str]) -> None:
    said = fedpace("advise", "--steps", "2,5,9", "--server-lr", "2,1", *words)
    assert said.code == 2 and said.out == "" and said.err.count("\n") == 1


def test_parameters_that_count_and_those_that_do_not() -> None:
    """What the checks of every rule do with integers that no float and no database can hold."""
    for value in (10**400, 10**5000, 2**63, float("inf"), float("nan"), "1", None, True):
        with pytest.raises(ConfigError) as refused:
            require_count(value, "it")
        assert len(str(refused.value)) < 400
    for value in (10**400, -(10**400), 10**5000, float("inf"), float("-inf"), float("nan"), "1", None):
        with pytest.raises(ConfigError):
            require_number(value, "it", allowed="a number")


ALL = {name: inspect.signature(getattr(algorithms, name)).parameters for name in algorithms.__all__}
VALUES = (
    "1e300",
    "-1e300",
    "1e-300",
    "0",
    "-1",
    "2147483647",
    "[]",
    "[[1]]",
    "[1e300]",
    "abc",
    "none",
    "true",
)


@pytest.mark.parametrize("name", ALL)
def test_every_parameter_of_every_algorithm_refuses_or_takes_it(name: str) -> None:
    """Built, or refused by ConfigError: no wild value makes a rule raise anything else."""
    built = 0
    for parameter in ALL[name]:
        for text in VALUES:
            with suppress(ConfigError), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # outside the theory, and computed all the same
                getattr(algorithms, name)(**{parameter: parse_value(text)})
                built += 1
    assert built > 0
