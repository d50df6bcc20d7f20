"""The README is true: its table, its commands and its Python."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from fedpace import algorithms, cli, reproduce
from fedpace.cli.entry import parser_of

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    lines = [line.partition("  #")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    return [line for line in lines if line.startswith("fedpace ")]


def test_the_first_commands_are_the_two_scripts() -> None:
    assert [line.split()[0] for line in blocks("bash")[0].splitlines()] == [
        "./scripts/demo",
        "./scripts/test",
    ]


def test_the_table_of_algorithms_names_each_once() -> None:
    table = README.split("| | algorithms |")[1].split("\n\n")[0]
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(algorithms.__all__)


@pytest.mark.parametrize("line", commands())
def test_every_command_parses(line: str) -> None:
    _, verb, *words = shlex.split(line)
    assert verb in cli.VERBS
    parser_of(verb).parse_args(words)


def test_the_python_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert (tmp_path / "fedgm.png").exists()
    assert names["run"].final["accuracy"] > 0.8  # type: ignore[attr-defined]


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        links = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text())
        assert [link for link in links if not (page.parent / link).exists()] == [], page


def test_the_index_counts_the_verdicts_of_the_pages() -> None:
    files = {name: ROOT / "docs" / "results" / name / "verdicts.json" for name in reproduce.NAMES}
    for name, file in files.items():
        rows = [line for line in README.splitlines() if line.startswith(f"| [{name}]")]
        if not file.exists():
            assert rows == [] and f"`{name}`" in README, name
            continue
        found = Counter(
            finding["verdict"] for page in json.loads(file.read_text()).values() for finding in page
        )
        counts = [found[word] for word in ("reproduced", "contradicted", "undecided", "indicated")]
        open_ = found["not tested"] + found["not run"]
        assert [row.split(" | ", 2)[2] for row in rows] == [" | ".join(map(str, [*counts, open_])) + " |"]
