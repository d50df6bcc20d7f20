"""The public names of fedpace, found in its source without importing it: extras need not be installed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src"
PACKAGE = SOURCE / "fedpace"
OTHERS = PACKAGE / "bench" / "scripts"  # run by the interpreters of other frameworks

Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign | ast.Module
Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a name is defined, and what it is."""

    module: str
    name: str
    node: Node

    @property
    def comment(self) -> str:
        """The comment at the end of its first line."""
        return comment(self.module, self.node)


@cache
def files() -> dict[str, Path]:
    """Modules by name."""
    found = [file for file in sorted(PACKAGE.rglob("*.py")) if OTHERS not in file.parents]
    return {_module_name(file): file for file in found}


def _module_name(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(files()[module].read_text(encoding="utf-8"))


@cache
def lines(module: str) -> list[str]:
    return files()[module].read_text(encoding="utf-8").splitlines()


@cache
def exported() -> dict[str, list[str]]:
    """Every `__all__`, by module."""
    found = {module: _all_of(tree(module)) for module in files()}
    return {module: names for module, names in found.items() if names}


def _all_of(module: ast.Module) -> list[str]:
    for node in module.body:
        if isinstance(node, ast.Assign) and _target(node) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def public(module: str) -> list[str]:
    """The names of a module that people may use: its `__all__`, or what it defines without an underscore."""
    return exported().get(module) or [
        name for node in tree(module).body if (name := _target(node)) and not name.startswith("_")
    ]


def find(module: str, name: str) -> Definition:
    """Follow imports to where the name is defined; a submodule is its own definition."""
    for node in _statements(tree(module).body):
        if _target(node) == name and isinstance(node, Node):
            return Definition(module, name, node)
    for node in _statements(tree(module).body):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _imported(node.module or "", alias.name)
    return _imported(module, name)


def _imported(module: str, name: str) -> Definition:
    if (whole := f"{module}.{name}") in files():
        return Definition(whole, "", tree(whole))
    if module not in files():
        return Definition(module, name, ast.Module([], []))
    if not any(name in _names(node) for node in _statements(tree(module).body)):
        raise LookupError(f"{module} has no {name}")
    return find(module, name)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Also those under `if TYPE_CHECKING` and `try`."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _statements([*node.body, *node.orelse])


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    return {_target(node)}


def _target(node: ast.AST) -> str:
    if isinstance(node, (*Functions, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


def comment(module: str, node: ast.AST) -> str:
    """The comment behind a statement, on its last line."""
    if not isinstance(node, ast.stmt) or node.end_lineno is None:
        return ""
    return lines(module)[node.end_lineno - 1][node.end_col_offset :].partition("#")[2].strip()


def bases(found: Definition) -> list[Definition]:
    """The base classes that are fedpace's own."""
    assert isinstance(found.node, ast.ClassDef)
    own = []
    for base in found.node.bases:
        if isinstance(base, ast.Name):
            try:
                parent = find(found.module, base.id)
            except LookupError:  # a builtin
                continue
            own += [parent] if isinstance(parent.node, ast.ClassDef) else []
    return own
