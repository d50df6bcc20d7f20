"""Tutorial, how-to guides and gallery: cells compile, names exist, commands parse; with --all everything is run."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fedpace import algorithms
from fedpace.cli.entry import VERBS, parser_of
from fedpace.cli.settings import build, setting
from fedpace.deploy.projects.settings import read_settings
from fedpace.errors import ConfigError

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NOTEBOOKS = [*sorted((DOCS / "tutorial").glob("*.md")), DOCS / "gallery" / "index.md"]
GUIDES = sorted((DOCS / "howto").glob("*.md"))
PAGES = [*NOTEBOOKS, *GUIDES]
OTHERS = DOCS / "howto" / "coming-from-another-framework.md"  # has programs of other frameworks
# in a process of its own: what nbclient's libraries warn of is not ours
EXECUTE = """
import sys, jupytext
from nbclient import NotebookClient
from pathlib import Path
page = Path(sys.argv[1])
place = {"metadata": {"path": str(page.parent)}}
NotebookClient(jupytext.read(page), timeout=600, kernel_name="python3", resources=place).execute()
"""


def named(page: Path) -> str:
    return f"{page.parent.name}/{page.name}"


def blocks(page: Path, kind: str) -> list[str]:
    return re.findall(rf"```{re.escape(kind)}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def cells(page: Path) -> list[str]:
    """Code cells without their `:tags:`."""
    return [re.sub(r"^:.*\n", "", cell) for cell in blocks(page, "{code-cell} ipython3")]


def python(page: Path) -> list[str]:
    if page == OTHERS:
        return [block for block in blocks(page, "python") if "import fedpace" in block]
    return cells(page) + blocks(page, "python")


def commands(page: Path) -> Iterator[list[str]]:
    """Words after `fedpace`, of shell blocks and of inline code that is a whole command."""
    text = page.read_text(encoding="utf-8")
    lines = "\n".join(blocks(page, "bash")).replace("\\\n", " ").splitlines()
    inline = re.findall(r"`(fedpace [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for line in [*lines, *inline]:
        words = shlex.split(re.sub(r"\$\w+", "1", line), comments=True)
        at = words.index("fedpace") if "fedpace" in words else len(words)
        if len(words) > at + 1 and words[at + 1] in VERBS and "..." not in words:
            end = next((i for i, word in enumerate(words) if i > at and word in ("&", "&&", "|")), len(words))
            yield words[at + 1 : end]


def resolved(name: str) -> Any:
    """The object of a dotted name below fedpace."""
    found: Any = importlib.import_module("fedpace")
    for part in name.split(".")[1:]:
        here = getattr(found, "__name__", "")
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module(f"{here}.{part}")
    return found


def uses(tree: ast.AST) -> Iterator[str]:
    """Dotted names that are imported from fedpace, and attributes of `fedpace` and `algorithms`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fedpace":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            if re.fullmatch(r"fedpace(\.\w+)+", text):
                yield text
            elif re.fullmatch(r"algorithms\.\w+", text):
                yield f"fedpace.{text}"


@pytest.fixture(scope="module")
def gallery() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gallery", DOCS / "gallery" / "gallery.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ------------------------------------------------------------ the default run: nothing is trained


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_code_compiles_and_its_names_exist(page: Path) -> None:
    for block in python(page):
        for name in uses(ast.parse(block)):
            resolved(name)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_parse(page: Path) -> None:
    for verb, *words in commands(page):
        if not any(word.endswith(".toml") for word in words):  # a file is read while its words are parsed
            parsed(verb, words)


def parsed(verb: str, words: list[str]) -> None:
    """Parse the words; a mention such as `fedpace deploy new` need not be complete."""
    try:
        parser_of(verb).parse_args(words)
    except ConfigError as error:
        if "arguments are required" not in str(error):
            raise


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_local_links_lead_to_files(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(((?!https?:)[^)#\s]+)", prose)
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", [page for page in GUIDES if blocks(page, "toml")], ids=named)
def test_experiment_files_are_toml(page: Path) -> None:
    assert all(tomllib.loads(block) for block in blocks(page, "toml"))


def test_rules_of_the_security_checklist_fit_a_study(tmp_path: Path) -> None:
    run = '[run]\nalgorithm = "fedbuff(buffer=10, concurrency=20)"\nclients = 40\nrounds = 5\n'
    rules = blocks(DOCS / "howto" / "secure-a-deployment.md", "toml")
    assert len(rules) == 2
    for table in rules:
        (tmp_path / "run.toml").write_text(run + table)
        [(field, text)] = tomllib.loads(table)["rules"].items()
        built = read_settings(tmp_path).built({})
        assert type(getattr(built, field)).__name__ == text.partition("(")[0]


def test_commands_are_found() -> None:
    """The tests above would pass on nothing."""
    assert sum(1 for page in PAGES for _ in commands(page)) > 50


def test_the_gallery_has_every_algorithm(gallery: ModuleType) -> None:
    page = (DOCS / "gallery" / "index.md").read_text()
    assert set(gallery.SETTINGS) == set(algorithms.__all__)
    assert sorted(re.findall(r'^gallery\.show\("(\w+)"\)', page, re.MULTILINE)) == sorted(algorithms.__all__)
    assert sorted(re.findall(r"^### (\w+)$", page, re.MULTILINE)) == sorted(algorithms.__all__)


@pytest.mark.parametrize("name", algorithms.__all__)
def test_a_command_of_the_gallery_is_the_algorithm_drawn(gallery: ModuleType, name: str) -> None:
    words = shlex.split(gallery.command(name))
    args = parser_of("run").parse_args(words[2:])
    chosen = dict(setting(one) for one in gallery.SETTINGS[name].split())
    assert dict(args.set) == chosen and args.rounds == gallery.steps(name)
    build(getattr(algorithms, name), chosen, rounds=args.rounds)


# ------------------------------------------------------------ --all: everything is run


def run(command: list[str], folder: Path) -> None:
    own = {
        name: str(folder / name)
        for name in (
            "FEDPACE_HOME",
            "IPYTHONDIR",
            "JUPYTER_CONFIG_DIR",
            "JUPYTER_DATA_DIR",
            "JUPYTER_RUNTIME_DIR",
        )
    }
    env = {**os.environ, **own, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.long
@pytest.mark.parametrize("page", NOTEBOOKS, ids=named)
def test_notebooks_run(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("jupytext")
    run([sys.executable, "-c", EXECUTE, str(page)], tmp_path)


IMPORTS = re.compile(r"^(import|from) fedpace", re.MULTILINE)  # others are excerpts
COMPLETE = [page for page in GUIDES if IMPORTS.search("\n".join(python(page))) and page != OTHERS]


@pytest.mark.long
@pytest.mark.parametrize("page", COMPLETE, ids=named)
def test_programs_of_the_guides_run(page: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("\n".join(python(page)))
    run([sys.executable, str(program)], tmp_path)


@pytest.mark.long
def test_our_side_of_the_comparison_runs(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text(blocks(OTHERS, "python")[0])
    for number, program in enumerate(dict.fromkeys(python(OTHERS))):
        (tmp_path / f"ours{number}.py").write_text(program)
        run([sys.executable, f"ours{number}.py"], tmp_path)
