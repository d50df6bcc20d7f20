"""Every public name, verb and option has its entry in the generated reference."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from functools import cache

import pytest

import reference
from fedpace import algorithms
from fedpace.cli.entry import VERBS, parser_of
from fedpace.errors import FedpaceError
from reference import algorithms as algorithm_pages
from reference.docstrings import markdown
from reference.sources import exported, find

ENTRY = re.compile(r"^:{3,}\{py:(?:class|function|data)\} ([\w.]+)|^```\{py:module\} ([\w.]+)", re.MULTILINE)


@cache
def pages() -> dict[str, str]:
    return reference.pages()


@cache
def described() -> set[str]:
    """The paths that have an entry."""
    found = [match for text in pages().values() for match in ENTRY.findall(text)]
    paths = [name or module for name, module in found]
    assert len(paths) == len(set(paths))
    return set(paths)


@pytest.mark.parametrize("module", sorted(exported()))
def test_every_name_of_an_all_has_an_entry(module: str) -> None:
    assert [name for name in exported()[module] if f"{module}.{name}" not in described()] == []


def test_a_name_that_nobody_defines_is_an_error() -> None:
    with pytest.raises(LookupError, match=r"fedpace\.server_opt has no Mommentum"):
        find("fedpace.server_opt", "Mommentum")


def test_the_entry_of_a_rule_has_types_equation_and_meaning() -> None:
    text = pages()["python/fedpace.server_opt.md"]
    assert (
        "{py:class} fedpace.server_opt.Momentum(lr: float = 1.0, beta: float = 0.0, nu: float = 0.0)" in text
    )
    assert "```text\nb_{t+1} = (1 − β) Δ_t + β b_t " in text


@pytest.mark.parametrize("name", algorithms.__all__)
def test_every_algorithm_has_parameters_rules_and_papers(name: str) -> None:
    text = pages()[f"algorithms/{name}.md"]
    assert "| `client_lr` |" in text and "local = SGD(" in text
    assert re.search(r"## Papers\n\n- \S.* \d{4}", text)
    assert f"]({name}.md)" in pages()["algorithms/index.md"]


def test_every_parameter_of_an_algorithm_has_a_meaning() -> None:
    texts = algorithm_pages.pages().values()
    assert not [line for text in texts for line in text.splitlines() if line.endswith("|  |")]


def every_parser() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for verb in VERBS:
        waiting = [parser_of(verb)]
        for parser in waiting:
            yield verb, parser
            waiting += [
                inner
                for action in parser._actions
                if isinstance(action, argparse._SubParsersAction)
                for inner in action.choices.values()
            ]


@pytest.mark.parametrize(
    ("verb", "parser"), list(every_parser()), ids=lambda given: getattr(given, "prog", "")
)
def test_every_option_has_its_line(verb: str, parser: argparse.ArgumentParser) -> None:
    text = pages()[f"commands/{verb}.md"]
    head = f"# {parser.prog}\n"
    assert head in text
    section = text.split(head, 1)[1].split(f"# {parser.prog.split()[0]} ")[0]
    rows = {line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")}
    shown = {word.split()[0].strip("`,") for row in rows for word in row.split("`") if word.startswith("-")}
    options = {
        option
        for action in parser._actions
        if action.help is not argparse.SUPPRESS
        for option in action.option_strings
    }
    assert options - shown == set()


def test_no_option_is_without_a_meaning() -> None:
    lines = [line for path, text in pages().items() if "commands/" in path for line in text.splitlines()]
    assert [line for line in lines if re.fullmatch(r"\| `.*` \|  \|", line)] == []


def test_docstrings_become_markdown() -> None:
    docstring = """A rule of `a | b`, costs < $5.

    Its equation:

        x = y
        z = |x|

    Sign: added.
    Departures: none.

    >>> 1 + 1
    2
    """
    assert markdown(docstring) == (
        "A rule of `a | b`, costs \\< \\$5.\n\nIts equation:\n\n```text\nx = y\nz = |x|\n```\n\n"
        "Sign: added.\n\nDepartures: none.\n\n```pycon\n>>> 1 + 1\n2\n```"
    )


def test_errors_are_part_of_it() -> None:
    assert f"fedpace.errors.{FedpaceError.__name__}" in described()
