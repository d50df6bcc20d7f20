"""fedpace list [WHAT]"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from fedpace import citations
from fedpace.cli import show
from fedpace.cli.experiment import algorithm_functions
from fedpace.cli.population import FORMS
from fedpace.errors import unknown

if TYPE_CHECKING:
    from rich.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="?",
        metavar="WHAT",
        help=f"one of {', '.join(SECTIONS)}, or an algorithm to see its parameters and papers",
    )


def command(args: argparse.Namespace) -> int:
    """Show the algorithms, tasks and partitions there are."""
    from rich.console import Console

    console = Console(highlight=False)
    if args.what is not None and args.what not in SECTIONS:
        _one_algorithm(args.what, console)
        return 0
    for section in SECTIONS if args.what is None else (args.what,):
        SECTIONS[section](console)
        console.print()
    return 0


def _algorithms(console: Console) -> None:
    rows = [
        (name, _first_line(function), _cited(name))
        for name, function in sorted(algorithm_functions().items())
    ]
    show.table(console, ("algorithm", "what it is", "from"), rows, align="lll")


def _tasks(console: Console) -> None:
    from fedpace.tasks import TASKS

    show.table(console, ("task", "what it is"), sorted(TASKS.items()), align="ll")


def _partitions(console: Console) -> None:
    from fedpace.tasks import PARTITIONS

    show.table(console, ("partition", "who holds which sample"), PARTITIONS.items(), align="ll")


def _populations(console: Console) -> None:
    show.table(console, ("population", "how fast the devices are"), FORMS.items(), align="ll")


SECTIONS: dict[str, Callable[[Console], None]] = {
    "algorithms": _algorithms,
    "tasks": _tasks,
    "partitions": _partitions,
    "populations": _populations,
}


def _one_algorithm(name: str, console: Console) -> None:
    """Its whole description, its parameters with their defaults, and whom to cite."""
    functions = algorithm_functions()
    if name not in functions:
        raise unknown("what to list", name, (*SECTIONS, *functions))
    console.print(f"{name}: {inspect.getdoc(functions[name])}\n", markup=False)
    parameters = inspect.signature(functions[name]).parameters.values()
    rows = [(p.name, "required" if p.default is p.empty else repr(p.default)) for p in parameters]
    show.table(console, ("parameter (--set NAME=VALUE)", "default"), rows, align="ll")
    console.print()
    for paper in citations.papers(name):
        console.print(str(paper), markup=False)


def _first_line(function: Callable[..., object]) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _cited(name: str) -> str:
    first = citations.papers(name)[0]
    return f"{first.short} {first.year}"
