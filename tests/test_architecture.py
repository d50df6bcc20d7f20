"""The shape of the code: who may import whom, where time and torch live, and how long a file may get."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fedpace"
OTHERS = SOURCE / "bench" / "scripts"  # run by the interpreters of other frameworks, imported by nobody
FILES = [file for file in sorted(SOURCE.rglob("*.py")) if OTHERS not in file.parents]

# A package may import those of lower rank, and its own.
RANKS = (
    {"untrusted", "logs", "on_demand", "paper"},
    {"errors", "random", "bibliography"},
    {"disk", "display", "statistics"},
    {"vector"},
    {"loops", "client_spread", "patterns"},
    {"kernels", "spill"},
    {"pace", "local", "link", "server_opt"},
    {"aggregate"},  # caches are packed with the wire's own packer
    {"privacy"},
    {"combinations", "limits"},
    {"algorithm"},
    {"expressions"},
    {"plug_ins"},
    {"server"},
    {"client"},
    {"compute"},
    {"sim"},
    {"tasks", "record", "theory", "citations", "check", "interruption"},
    {"algorithms", "execution"},
    {"experiment"},
    {"study"},
    {"reproduce", "bench", "deploy", "dashboard"},
    {"cli"},
    {"__main__"},
)
RANK = {package: rank for rank, packages in enumerate(RANKS) for package in packages}
MAY_ALSO = {("local", "fedpace.aggregate.protocol")}  # corrections see the same updates as aggregation
LONGEST = 300  # for any one file

# What only some places may import, and which.
ONLY_IN = {
    "torch": ("tasks", "compute", "bench"),
    "sklearn": ("tasks",),
    "time": ("experiment", "execution", "compute", "bench", "reproduce", "cli", "deploy", "dashboard"),
    "random": (),
    "socket": ("deploy", "dashboard"),
    "flwr": ("deploy",),
    "asyncio": ("deploy", "dashboard"),
    "pickle": (),  # CIFAR is published that way; its two layouts are read without an unpickler
    "cloudpickle": ("compute",),  # to a child process of our own, and from nowhere else
    **dict.fromkeys(("fcntl", "grp", "posix", "pty", "pwd", "syslog", "termios", "tty"), ()),  # only on POSIX
    "resource": ("bench",),  # only on POSIX, too: where there is none, peaks are not measured
}


def package_of(file: Path) -> str:
    """`fedpace/sim/timeline.py` -> sim; `fedpace/errors.py` -> errors; the package's own front page -> ''."""
    first = file.relative_to(SOURCE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imports(file: Path) -> tuple[tuple[str, bool], ...]:
    """(module, needed at run time) for every import in the file, those inside functions included."""
    return tuple(_imports(file))


def _imports(file: Path) -> Iterator[tuple[str, bool]]:
    tree = parsed(file)
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) not in for_types
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, id(node) not in for_types
            if node.module == "fedpace":
                for alias in node.names:
                    yield f"fedpace.{alias.name}", id(node) not in for_types


def test_every_package_has_a_place_in_the_order() -> None:
    assert {package_of(file) for file in FILES} - {""} <= set(RANK)


@pytest.mark.parametrize("package", sorted(RANK))
def test_dependencies_point_one_way(package: str) -> None:
    wrong = [
        f"{file.relative_to(SOURCE)} imports {module}"
        for file in FILES
        if package_of(file) == package
        for module, at_run_time in imports(file)
        if at_run_time and module.startswith("fedpace.")
        for other in [module.split(".")[1]]
        if other != package and RANK.get(other, -1) >= RANK[package] and (package, module) not in MAY_ALSO
    ]
    assert wrong == []


@pytest.mark.parametrize(("module", "places"), ONLY_IN.items())
def test_some_modules_are_imported_in_few_places(module: str, places: tuple[str, ...]) -> None:
    users = {
        package_of(file)
        for file in FILES
        for name, at_run_time in imports(file)
        if at_run_time and name.split(".")[0] == module
    }
    assert users <= set(places)


@pytest.mark.parametrize(
    "module",
    [
        "fedpace",
        "fedpace.cli",
        "fedpace.algorithms",
        "fedpace.sim",
        "fedpace.record",
        "fedpace.deploy.flower.client",
    ],
)
def test_importing_it_does_not_import_the_heavy_libraries(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    command, env = [sys.executable, "-c", code], {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    loaded = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.split()
    assert {"torch", "sklearn", "matplotlib", "pandas", "numba"}.isdisjoint(loaded)


def lines_of_code(file: Path) -> int:
    """Lines that are neither blank, nor comment, nor docstring."""
    tree = parsed(file)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        line
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    lines = enumerate(file.read_text().splitlines(), start=1)
    return sum(bool(text.strip()) and text.strip()[0] != "#" and at not in docstrings for at, text in lines)


def test_nobody_but_the_server_and_the_checkpoint_reads_the_servers_state() -> None:
    """A driver that reads it can misuse it. An alias counts too: `machine = simulation.server; machine.state`."""
    allowed = {SOURCE / "record" / "store" / "snapshot.py"}
    readers = {
        f"{file.relative_to(SOURCE)}:{line}"
        for file in FILES
        if package_of(file) != "server" and file not in allowed
        for line in reads_of_server_state(parsed(file))
    }
    assert readers == set()


def test_the_look_for_readers_finds_them() -> None:
    found = {
        "server.state.x": 1,
        "simulation.server.state": 1,
        "self.server.state.pace": 1,
        "s = run.server\ns.state": 2,
        "one, two = server, 1\none.state": 2,
        "Server(a, x, 3).state": 1,
        "s = Server(a, x, 3)\ns.state.x": 2,
        "def f(machine: Server):\n    return machine.state": 2,
        "getattr(server, 'state')": 1,
    }
    for text, line in found.items():
        assert list(reads_of_server_state(ast.parse(text))) == [line], text
    for text in ("client.state", "self.state", "server.version", "from fedpace.server.state import X"):
        assert list(reads_of_server_state(ast.parse(text))) == [], text


def reads_of_server_state(tree: ast.AST) -> Iterator[int]:
    """Lines that read `.state` of a server, under whatever name it goes in this file."""
    aliases = set(server_aliases(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=owner, attr="state") if is_server(owner, aliases):
                yield node.lineno
            case ast.Call(func=ast.Name("getattr"), args=[owner, ast.Constant("state"), *_]):
                yield from [node.lineno] if is_server(owner, aliases) else []


def server_aliases(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from paired_aliases(target, value)
            case ast.arg(arg=name, annotation=ast.expr() as kind) if is_server_type(kind):
                yield name
            case ast.AnnAssign(target=target, annotation=kind) if is_server_type(kind):
                yield ast.unparse(target)


def is_server_type(kind: ast.expr) -> bool:
    return ast.unparse(kind).split(".")[-1] == "Server"


def paired_aliases(target: ast.expr, value: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its in zip(target.elts, value.elts, strict=False):
            yield from paired_aliases(one, its)
    elif is_server(value, set()):
        yield ast.unparse(target)


def is_server(node: ast.expr, aliases: set[str]) -> bool:
    text = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    made = isinstance(node, ast.Call) and text.split(".")[-1] == "Server"
    named = not isinstance(node, ast.Call) and (text.split(".")[-1] == "server" or text in aliases)
    return made or named


def test_no_file_has_got_away() -> None:
    lines = {file.relative_to(SOURCE).as_posix(): lines_of_code(file) for file in FILES}
    assert {name: n for name, n in lines.items() if n > LONGEST} == {}


def test_nothing_global_is_drawn_from() -> None:
    """Chance comes from named streams; a global generator makes results depend on the order of calls."""
    drawn = re.compile(r"np\.random\.(?!Generator|PCG64|SeedSequence|default_rng)\w+\(|torch\.manual_seed")
    assert [
        file.name
        for file in FILES
        if package_of(file) != "tasks" and file.name != "device.py" and drawn.search(file.read_text())
    ] == []


def _is_text_by_default(call: ast.Call) -> bool:
    """Whether it reads or writes text in whatever encoding the system has."""
    if any(keyword.arg == "encoding" for keyword in call.keywords):
        return False
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in ("read_text", "write_text")
    mode = call.args[1] if len(call.args) > 1 else ast.Constant("r")
    return ast.unparse(call.func) == "open" and isinstance(mode, ast.Constant) and "b" not in str(mode.value)


def test_text_has_the_same_encoding_on_every_system() -> None:
    calls = [
        (file.name, ast.unparse(node))
        for file in FILES
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Call) and _is_text_by_default(node)
    ]
    assert calls == []


def test_no_file_names_a_place_on_one_machine() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    absolute = re.compile(rb"(?<![\w.~}])/(?:home|Users|root|work|tmp|opt|mnt)/\w")
    files = [ROOT / name for name in tracked.stdout.splitlines()]
    found = [str(file) for file in files if file.is_file() and absolute.search(file.read_bytes())]
    assert found == []


def test_verbs_import_helpers_and_nobody_imports_a_verb() -> None:
    """A verb is found by its name; what two verbs share lives beside `verbs/`."""
    wrong = [
        f"{file.relative_to(SOURCE)} imports {module}"
        for file in FILES
        for module, _ in imports(file)
        if module.startswith("fedpace.cli.verbs")
    ]
    assert wrong == []


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for file in FILES:
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(file.relative_to(SOURCE).as_posix())
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
