"""One entry of the reference for one public name: signature with types, description, fields and methods."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from reference.docstrings import cell, code, markdown
from reference.sources import Definition, Functions, bases, comment

LONGEST_VALUE = 200


def entry(path: str, found: Definition) -> str:
    """The directive that documents `found` under its public path."""
    node = found.node
    if isinstance(node, ast.ClassDef):
        return _class(path, found)
    if isinstance(node, Functions):
        return _function(path, found)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return _data(path, found)
    return _directive("py:data", path, [], f"From `{found.module}`.")


def alias(path: str, found: Definition, home: str) -> str:
    """A second path to a name that has its entry elsewhere."""
    kind = (
        "class"
        if isinstance(found.node, ast.ClassDef)
        else "function"
        if isinstance(found.node, Functions)
        else "data"
    )
    return _directive(f"py:{kind}", path, [], f"The same as {{py:obj}}`{home}`.")


def _directive(kind: str, signature: str, options: list[str], body: str, colons: int = 4) -> str:
    fence = ":" * colons
    head = [f"{fence}{{{kind}}} {signature}", *options, ""]
    return "\n".join([*head, *([body, ""] if body else []), fence])


def _function(path: str, found: Definition) -> str:
    node = found.node
    assert isinstance(node, Functions)
    options = [":async:"] if isinstance(node, ast.AsyncFunctionDef) else []
    return _directive("py:function", path + _signature(node), options, markdown(ast.get_docstring(node)))


def _data(path: str, found: Definition) -> str:
    node = found.node
    assert isinstance(node, ast.Assign | ast.AnnAssign)
    options = [f":type: {ast.unparse(node.annotation)}"] if isinstance(node, ast.AnnAssign) else []
    rows = _described(node.value)
    if not rows and node.value is not None:
        value = ast.unparse(node.value)
        options += [f":value: {value if len(value) <= LONGEST_VALUE else '...'}"]
    return _directive("py:data", path, options, "\n\n".join(filter(None, [markdown(found.comment), rows])))


def _described(value: ast.expr | None) -> str:
    """The table of a dictionary from words to descriptions."""
    try:
        pairs = ast.literal_eval(value) if value is not None else None
    except ValueError:
        return ""
    if not isinstance(pairs, dict) or not all(isinstance(text, str) for text in pairs.values()):
        return ""
    rows = [f"| {code(str(name))} | {cell(text)} |" for name, text in pairs.items()]
    return "\n".join(["| name | meaning |", "|---|---|", *rows])


def _class(path: str, found: Definition) -> str:
    node = found.node
    assert isinstance(node, ast.ClassDef)
    parts = [markdown(ast.get_docstring(node)), _fields_table(found), *_members(found)]
    return _directive("py:class", path + _constructor(found), [], "\n\n".join(filter(None, parts)), 6)


def _constructor(found: Definition) -> str:
    for owner in _lineage(found):
        for node in _body(owner):
            if isinstance(node, Functions) and node.name == "__init__":
                return _signature(node, method=True, result=False)
    if not _dataclass_options(found):
        return ""
    every = "kw_only=True" in _dataclass_options(found)
    placed = [_parameter(node) for _, node in fields(found) if not (every or _is_keyword(node))]
    named = [_parameter(node) for _, node in fields(found) if every or _is_keyword(node)]
    return f"({', '.join([*placed, *(['*'] if named else []), *named])})"


def _is_keyword(node: ast.AnnAssign) -> bool:
    return node.value is not None and "kw_only=True" in ast.unparse(node.value)


def _parameter(node: ast.AnnAssign) -> str:
    default = f" = {_default(node.value)}" if node.value is not None else ""
    return f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}{default}"


def _default(value: ast.expr) -> str:
    """`field(default=..)` as the value it stands for."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        given = {word.arg: ast.unparse(word.value) for word in value.keywords}
        return given.get("default") or (
            f"{given['default_factory']}()" if "default_factory" in given else "..."
        )
    return ast.unparse(value)


def _dataclass_options(found: Definition) -> str:
    """What makes it a dataclass or a named tuple, if it is one."""
    assert isinstance(found.node, ast.ClassDef)
    makers = map(ast.unparse, [*found.node.decorator_list, *found.node.bases])
    return next((text for text in makers if "dataclass" in text or text == "NamedTuple"), "")


def _lineage(found: Definition) -> list[Definition]:
    """The class, then its bases, nearest first."""
    return [found, *(each for base in bases(found) for each in _lineage(base))]


def _body(found: Definition) -> list[ast.stmt]:
    assert isinstance(found.node, ast.ClassDef)
    return found.node.body


def fields(found: Definition) -> Iterator[tuple[Definition, ast.AnnAssign]]:
    """Annotated attributes in the order of the constructor, each once."""
    seen: set[str] = set()
    for owner in reversed(_lineage(found)):
        for node in _body(owner):
            name = ast.unparse(node.target) if isinstance(node, ast.AnnAssign) else "_"
            constant = isinstance(node, ast.AnnAssign) and "ClassVar" in ast.unparse(node.annotation)
            if (
                isinstance(node, ast.AnnAssign)
                and not name.startswith("_")
                and name not in seen
                and not constant
            ):
                seen.add(name)
                yield owner, node


def _fields_table(found: Definition) -> str:
    """Fields with the comments they have in the source; without any, the constructor says all."""
    if not any(comment(owner.module, node) for owner, node in fields(found)):
        return ""
    rows = [
        f"| {code(ast.unparse(node.target))} | {code(ast.unparse(node.annotation))} | {_default_cell(node)} "
        f"| {cell(comment(owner.module, node))} |"
        for owner, node in fields(found)
    ]
    return "\n".join(["| field | type | default | meaning |", "|---|---|---|---|", *rows])


def _default_cell(node: ast.AnnAssign) -> str:
    return "" if node.value is None else code(_default(node.value))


def _members(found: Definition) -> Iterator[str]:
    """Public methods and properties, also of base classes that are ours."""
    seen: set[str] = set()
    for owner in _lineage(found):
        for node in _body(owner):
            if isinstance(node, Functions) and not node.name.startswith("_") and node.name not in seen:
                seen.add(node.name)
                yield _member(node)


def _member(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    decorators = {ast.unparse(each) for each in node.decorator_list}
    text = markdown(ast.get_docstring(node))
    if decorators & {"property", "cached_property"}:
        options = [f":type: {ast.unparse(node.returns)}"] if node.returns else []
        return _directive("py:property", node.name, options, text)
    kinds = {"classmethod": ":classmethod:", "staticmethod": ":staticmethod:"}
    options = [option for name, option in kinds.items() if name in decorators]
    options += [":async:"] if isinstance(node, ast.AsyncFunctionDef) else []
    bound = "staticmethod" not in decorators
    return _directive("py:method", node.name + _signature(node, method=bound), options, text)


def _signature(
    node: ast.FunctionDef | ast.AsyncFunctionDef, *, method: bool = False, result: bool = True
) -> str:
    given = copy.deepcopy(node.args)
    if method:
        del (given.posonlyargs or given.args)[0]  # self
    returned = f" -> {ast.unparse(node.returns)}" if node.returns is not None and result else ""
    return f"({ast.unparse(given)}){returned}"
