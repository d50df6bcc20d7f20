from __future__ import annotations

import pytest

from fedpace.cli.settings import build, distribute, parse_value
from fedpace.errors import ConfigError
from fedpace.link import Dense
from fedpace.server_opt import Momentum


def tuned(client_lr: float = 0.1, beta: float = 0.9, rounds: int = 500) -> tuple[float, float, int]:
    return client_lr, beta, rounds


def needy(client_lr: float) -> float:
    return client_lr


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-0.5", -0.5),
        ("1e-3", 1e-3),
        ("None", None),
        ("True", True),
        ("false", False),
        ("none", None),
        ("[1, 2.5]", [1, 2.5]),
        ("(1, 2)", (1, 2)),
        ("1..6", (1, 6)),
        ("samples", "samples"),
        ("'samples'", "samples"),
        ("poly:0.5", "poly:0.5"),
        ("Momentum(lr=2, beta=0.9)", Momentum(lr=2, beta=0.9)),
        ("[Momentum(), Dense()]", [Momentum(), Dense()]),
    ],
)
def test_values_are_what_they_look_like(text: str, value: object) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize(
    "text", ["", "[1,", "1 +", "open('x')", "__import__('os')", "().__class__", "{1: Dense}"]
)
def test_nothing_but_literals_and_rules_is_ever_evaluated(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_value(text)


def test_an_unknown_rule_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean Momentum\? rule must be one of .*; got 'Momentm'"):
        parse_value("Momentm(1)")


def test_a_rule_called_wrongly_shows_how_it_is_called() -> None:
    with pytest.raises(
        ConfigError, match=r"must be called as Momentum\(lr.*unexpected keyword argument 'betta'"
    ):
        parse_value("Momentum(betta=0.9)")


def test_a_rules_own_check_speaks_for_itself() -> None:
    with pytest.raises(ConfigError, match=r"Momentum.beta must be in \[0, 1\); got 1.2"):
        parse_value("Momentum(beta=1.2)")


def test_a_setting_goes_to_all_that_take_it_and_a_dotted_one_to_its_owner() -> None:
    functions = {"tuned": tuned, "needy": needy}
    settings = [("client_lr", 1), ("beta", 2), ("needy.client_lr", 3)]
    assert distribute(settings, functions) == {
        "tuned": {"client_lr": 1, "beta": 2},
        "needy": {"client_lr": 3},
    }


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("bta", "did you mean beta? parameter of tuned must be one of beta, client_lr, rounds; got 'bta'"),
        (
            "tuned.bta",
            "did you mean beta? parameter of tuned must be one of beta, client_lr, rounds; got 'bta'",
        ),
        ("other.beta", "algorithm of --set other.beta must be one of tuned; got 'other'"),
    ],
)
def test_a_wrong_name_lists_the_right_ones(key: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        distribute([(key, 1)], {"tuned": tuned})
    assert str(error.value) == message


def test_what_is_offered_is_taken_only_where_it_fits_and_nothing_was_chosen() -> None:
    assert build(tuned, {}, rounds=7) == (0.1, 0.9, 7)
    assert build(tuned, {"rounds": 3}, rounds=7) == (0.1, 0.9, 3)
    assert build(needy, {"client_lr": 1.0}, rounds=7) == 1.0


def test_a_parameter_without_default_is_asked_for() -> None:
    with pytest.raises(ConfigError, match="needy needs a value: --set client_lr=VALUE"):
        build(needy, {})
