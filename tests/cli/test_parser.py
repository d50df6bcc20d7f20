from __future__ import annotations

import argparse

import pytest

from fedpace.cli.parser import Parser, count, seed
from fedpace.errors import ConfigError


@pytest.fixture
def parser() -> Parser:
    made = Parser(prog="fedpace test")
    made.add_argument("--rounds", type=count)
    made.add_argument("--mode", choices=("fast", "slow"))
    actions = made.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("get").add_argument("name")
    return made


def test_good_words_are_parsed(parser: Parser) -> None:
    args = parser.parse_args(["--rounds", "3", "get", "mnist"])
    assert (args.rounds, args.action, args.name) == (3, "get", "mnist")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rounds", "x"], "--rounds must be a whole number >= 1; got 'x'"),
        (["--mode", "fsat"], "did you mean fast? --mode must be one of fast, slow; got 'fsat'"),
        (["gte"], "did you mean get? ACTION must be one of get; got 'gte'"),
        (
            ["--roun=3"],
            "did you mean --rounds? option must be one of --help, --mode, --rounds, -h; got '--roun'",
        ),
        (["get", "a", "b"], "argument must be among those that --help lists; got 'b'"),
        (["get"], "the following arguments are required: name"),
    ],
)
def test_bad_words_raise_one_line(parser: Parser, words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parser.parse_args(words)
    assert str(error.value) == message


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "1e3", "", "ten", "٣"])
def test_a_count_is_a_plain_whole_number(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        count(text)


def test_a_seed_may_be_zero() -> None:
    assert seed("0") == 0 and count("007") == 7
