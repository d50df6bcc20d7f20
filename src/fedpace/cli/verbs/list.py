"""fedpace list [WHAT]"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable

from fedpace import citations
from fedpace.cli import show
from fedpace.cli.experiment import algorithm_functions
from fedpace.cli.parameters import MEANINGS
from fedpace.cli.population import FORMS
from fedpace.cli.wrapping import filled
from fedpace.errors import unknown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="?",
        metavar="WHAT",
        help=f"one of {', '.join(SECTIONS)}, or an algorithm to see its parameters and papers",
    )


def command(args: argparse.Namespace) -> int:
    """List algorithms, tasks, models, partitions and populations."""
    if args.what is not None and args.what not in SECTIONS:
        _one_algorithm(args.what)
        return 0
    for section in SECTIONS if args.what is None else (args.what,):
        SECTIONS[section]()
        print()
    return 0


def _algorithms() -> None:
    rows = [
        (name, _first_line(function), _cited(name))
        for name, function in sorted(algorithm_functions().items())
    ]
    show.table(("algorithm", "description", "paper"), rows, align="ltl")


def _tasks() -> None:
    from fedpace.tasks import OUTSIDE, TASKS

    show.table(("task", "description"), [*sorted(TASKS.items()), *OUTSIDE.items()], align="lt")


def _models() -> None:
    from fedpace.tasks import MODELS

    show.table(("model", "description"), sorted(MODELS.items()), align="lt")


def _partitions() -> None:
    from fedpace.tasks import PARTITIONS

    show.table(("partition", "how samples are partitioned over clients"), PARTITIONS.items(), align="lt")


def _populations() -> None:
    show.table(("population", "device speeds and links"), FORMS.items(), align="lt")


SECTIONS: dict[str, Callable[[], None]] = {
    "algorithms": _algorithms,
    "tasks": _tasks,
    "models": _models,
    "partitions": _partitions,
    "populations": _populations,
}


def _one_algorithm(name: str) -> None:
    """Its whole description, its parameters with their defaults, and papers to cite."""
    functions = algorithm_functions()
    if name not in functions:
        raise unknown("WHAT", name, (*SECTIONS, *functions))
    print(filled(f"{name}: {_description(functions[name])}"), end="\n\n")
    parameters = inspect.signature(functions[name]).parameters.values()
    rows = [(p.name, _default(p), MEANINGS.get(p.name, "")) for p in parameters]
    show.table(("--set NAME=VALUE", "default", "description"), rows, align="llt")
    print("", *(filled(str(paper)) for paper in citations.papers(name)), sep="\n")


def _default(parameter: inspect.Parameter) -> str:
    """As it would be written after `--set`."""
    if parameter.default is parameter.empty:
        return "required"
    return "none" if parameter.default is None else str(parameter.default)


def _description(function: Callable[..., object]) -> str:
    """Its docstring, without examples for Python."""
    return (inspect.getdoc(function) or "").partition("\n\n>>> ")[0]


def _first_line(function: Callable[..., object]) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _cited(name: str) -> str:
    first = citations.papers(name)[0]
    return f"{first.short} {first.year}"
