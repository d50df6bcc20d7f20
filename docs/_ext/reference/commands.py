"""Pages of the command line, made from the parsers: every verb, every option."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator

from fedpace.cli.entry import VERBS, parser_of
from reference.docstrings import cell, code, markdown

FOLDER = "commands"
FIRST = """\
`fedpace --help` lists the commands, `fedpace COMMAND --help` explains one, `fedpace --version` prints the version.
Exit codes: 0 done, 2 bad input, 3 diverged (the partial run is still written), 130 interrupted (likewise)."""


def pages() -> dict[str, str]:
    """Texts by file."""
    return {f"{FOLDER}/{verb}.md": _page(verb) for verb in VERBS} | {f"{FOLDER}/index.md": _index()}


def _page(verb: str) -> str:
    parser = parser_of(verb)
    return "\n\n".join([f"# fedpace {verb}", *_parser(parser, 2)]) + "\n"


def _parser(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    yield f"```text\n{_usage(parser)}\n```"
    if parser.description:
        yield markdown(parser.description)
    for group in parser._action_groups:
        actions = [each for each in group._group_actions if not isinstance(each, argparse._SubParsersAction)]
        if actions := [each for each in actions if each.help is not argparse.SUPPRESS]:
            yield f"{'#' * level} {(group.title or 'options').capitalize()}"
            if group.description:
                yield markdown(group.description)
            yield _table(parser, actions)
    for name, inner, line in subcommands(parser):
        yield f"{'#' * level} {parser.prog} {name}"
        if line and not inner.description:
            yield markdown(line)
        yield from _parser(inner, level + 1)


def subcommands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """Parsers of a second word, with their one-line help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            for name, inner in action.choices.items():
                yield name, inner, helps.get(name, "")


def _usage(parser: argparse.ArgumentParser) -> str:
    parser.formatter_class = lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=100)
    return inspect.cleandoc(parser.format_usage()).removeprefix("usage: ")


def _table(parser: argparse.ArgumentParser, actions: list[argparse.Action]) -> str:
    rows = [f"| {_words(action)} | {cell(_help(parser, action))} |" for action in actions]
    return "\n".join(["| argument | meaning |", "|---|---|", *rows])


def _words(action: argparse.Action) -> str:
    """`--rounds N`, or the name of a positional argument."""
    if not action.option_strings:
        return code(_value(action))
    value = "" if action.nargs == 0 else f" {_value(action)}"
    return ", ".join(code(f"{option}{value}") for option in action.option_strings)


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    return action.metavar or (str(action.dest).upper() if action.option_strings else str(action.dest))


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    choices = "" if action.choices is None or text else "one of " + ", ".join(map(str, action.choices))
    return text or choices


def _index() -> str:
    rows = [f"| [`fedpace {verb}`]({verb}.md) | {cell(line)} |" for verb, line in VERBS.items()]
    table = "\n".join(["| command | purpose |", "|---|---|", *rows])
    contents = "\n".join(["```{toctree}", ":hidden:", "", *VERBS, "```"])
    return f"# Command line\n\n{FIRST}\n\n{table}\n\n{contents}\n"
