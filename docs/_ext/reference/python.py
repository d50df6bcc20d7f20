"""Pages of the Python interface: one per module, one entry per public name."""

from __future__ import annotations

import ast
from functools import cache

from reference.docstrings import cell, markdown, summary
from reference.entries import alias, entry
from reference.sources import Definition, exported, find, public, tree

FOLDER = "python"


def pages() -> dict[str, str]:
    """Texts by file."""
    return {f"{FOLDER}/{module}.md": _page(module) for module in modules()} | {f"{FOLDER}/index.md": _index()}


@cache
def modules() -> list[str]:
    """Those with an `__all__`, and those that an `__all__` names."""
    named = {
        found.module
        for module, names in exported().items()
        for name in names
        if isinstance((found := find(module, name)).node, ast.Module) and found.name == ""
    }
    return sorted({*exported(), *named})


@cache
def homes() -> dict[tuple[str, str], str]:
    """The path under which a definition has its entry: the shortest of its public ones."""
    found: dict[tuple[str, str], str] = {}
    for module in sorted(modules(), key=lambda name: (name.count("."), name)):
        for name in public(module):
            place = find(module, name)
            found.setdefault((place.module, place.name), f"{module}.{name}")
    return found


def _page(module: str) -> str:
    docstring = ast.get_docstring(tree(module))
    parts = [f"# {module}", f"```{{py:module}} {module}\n```", markdown(docstring)]
    inner = [(name, find(module, name)) for name in public(module)]
    inside = [(name, found) for name, found in inner if _is_module(found)]
    if inside:
        parts += ["## Modules", _table([(found.module, _doc(found)) for _, found in inside])]
    if len(inside) < len(inner):
        parts += ["## Names"]
    parts += [_entry(f"{module}.{name}", found) for name, found in inner if not _is_module(found)]
    return "\n\n".join(parts) + "\n"


def _is_module(found: Definition) -> bool:
    return found.name == ""


def _entry(path: str, found: Definition) -> str:
    home = homes()[found.module, found.name]
    if home == path and path.startswith("fedpace.algorithms."):
        return f"- {{py:func}}`{path}`"  # each has a page of its own
    return entry(path, found) if home == path else alias(path, found, home)


def _doc(found: Definition) -> str:
    return summary(ast.get_docstring(found.node)) if isinstance(found.node, ast.Module) else ""


def _table(rows: list[tuple[str, str]]) -> str:
    lines = [f"| [`{module}`]({module}.md) | {cell(text)} |" for module, text in rows]
    return "\n".join(["| module | content |", "|---|---|", *lines])


def _index() -> str:
    rows = [(module, summary(ast.get_docstring(tree(module)))) for module in modules()]
    contents = "\n".join(["```{toctree}", ":hidden:", "", *modules(), "```"])
    first = "Every public name with its types, module by module. Modules that are not listed are internal."
    return f"# Python interface\n\n{first}\n\n{_table(rows)}\n\n{contents}\n"
