"""Pages of the named algorithms: description, papers, parameters, and the rules they are made of."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from fedpace import algorithms, citations
from fedpace.algorithm import Algorithm
from fedpace.cli.parameters import MEANINGS
from reference.docstrings import cell, code, escaped, markdown, summary

FOLDER = "algorithms"
GALLERY = Path(__file__).parents[2] / "gallery" / "gallery.py"
STOPS = ("pace", "local", "correction", "up", "aggregate", "server_opt", "down")
QUALIFIER = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")


def pages() -> dict[str, str]:
    """Texts by file."""
    texts = {f"{FOLDER}/{name}.md": _page(name) for name in algorithms.__all__}
    return texts | {f"{FOLDER}/index.md": _index()}


def _function(name: str) -> Callable[..., Algorithm]:
    made: Callable[..., Algorithm] = getattr(algorithms, name)
    return made


def _page(name: str) -> str:
    function = _function(name)
    parts = [
        f"# {name}",
        f"::::{{py:function}} fedpace.algorithms.{name}({_parameters(function)}) -> Algorithm\n\n"
        f"{markdown(inspect.getdoc(function))}\n::::",
        _picture(name),
        f"```bash\nfedpace run {name} --task digits --clients 100 --partition dirichlet:0.5 --rounds 50\n```",
        "## Parameters",
        "Given by name, or on the command line with `--set NAME=VALUE`.",
        _table(function),
        "## Rules",
        f"`fedpace.algorithms.{name}()` is made of these rules.",
        f"```python\n{_printed(name)}\n```",
        *_rules(name),
        "## Papers",
        *[f"- {escaped(str(paper))}" for paper in citations.papers(name)],
        f"`fedpace.cite({name!r})` prints them as BibTeX.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _parameters(function: Callable[..., Algorithm]) -> str:
    given = [f"{p.name}: {_kind(p)}{_assigned(p)}" for p in inspect.signature(function).parameters.values()]
    return ", ".join(["*", *given])


def _assigned(parameter: inspect.Parameter) -> str:
    return "" if parameter.default is parameter.empty else f" = {parameter.default!r}"


def _kind(parameter: inspect.Parameter) -> str:
    return QUALIFIER.sub("", inspect.formatannotation(parameter.annotation)).replace("NoneType", "None")


def _table(function: Callable[..., Algorithm]) -> str:
    rows = [
        f"| {code(p.name)} | {'required' if p.default is p.empty else code(repr(p.default))} "
        f"| {cell(MEANINGS.get(p.name, ''))} |"
        for p in inspect.signature(function).parameters.values()
    ]
    return "\n".join(["| parameter | default | meaning |", "|---|---|---|", *rows])


def _made(name: str) -> Algorithm:
    return _function(name)()


def _printed(name: str) -> str:
    """Its rules, one per line."""
    rules = {stop: getattr(_made(name), stop) for stop in STOPS}
    return "\n".join(f"{stop} = {rule!r}" for stop, rule in rules.items() if rule is not None)


def _rules(name: str) -> Iterator[str]:
    """The description of every rule in it, once, with its equations."""
    seen: set[type] = set()
    for stop in STOPS:
        for rule in _dataclasses(getattr(_made(name), stop)):
            if type(rule) not in seen:
                seen.add(type(rule))
                yield f"**{stop}: {type(rule).__name__}**\n\n{markdown(inspect.getdoc(type(rule)))}"


def _dataclasses(value: Any) -> Iterator[Any]:
    if is_dataclass(value):
        yield value
        for each in fields(value):
            yield from _dataclasses(getattr(value, each.name))


def _picture(name: str) -> str:
    """A small picture of its behaviour, where the gallery's script can draw it."""
    if not pictures():
        return ""
    text = f"{name} and FedAvg: accuracy over server steps, virtual seconds and bytes"
    link = f"[the gallery](../../../gallery/index.md#{name})"
    return f"![{text}]({name}.png)\n\nOn one small task, against FedAvg; {link} has the command."


def pictures() -> list[str]:
    """Files that the pages show and `draw` makes."""
    return [f"{FOLDER}/{name}.png" for name in algorithms.__all__] if GALLERY.exists() else []


def draw(folder: Path) -> None:
    """The pictures of the gallery's script, those that are not there yet."""
    missing = [folder / picture for picture in pictures() if not (folder / picture).exists()]
    if not missing:
        return
    sys.path.insert(0, str(GALLERY.parent))
    script = importlib.import_module(GALLERY.stem)
    for file in missing:
        with contextlib.redirect_stdout(io.StringIO()):
            script.show(file.stem).savefig(file, dpi=100)


def _index() -> str:
    rows = [
        f"| [`{name}`]({name}.md) | {cell(summary(inspect.getdoc(_function(name))))} | {_cited(name)} |"
        for name in algorithms.__all__
    ]
    table = "\n".join(["| algorithm | description | paper |", "|---|---|---|", *rows])
    contents = "\n".join(["```{toctree}", ":hidden:", "", *algorithms.__all__, "```"])
    first = "Named algorithms. Each is a function that chooses rules and returns a `fedpace.Algorithm`."
    return f"# Algorithms\n\n{first}\n\n{table}\n\n{contents}\n"


def _cited(name: str) -> str:
    paper = citations.papers(name)[0]
    return f"{paper.short} {paper.year}"
