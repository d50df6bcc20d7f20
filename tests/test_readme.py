"""The README and the pages of speed and evidence are true: tables, commands and Python."""

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
RESULTS = ROOT / "docs" / "results"
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    lines = [line.partition("  #")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    pages = [README, *((ROOT / "docs" / page).read_text() for page in ("speed.md", "evidence.md"))]
    quoted = [span for page in pages for span in re.findall(r"`(fedpace \w+ [^`]*)`", page)]
    return [line for line in [*lines, *quoted] if line.startswith("fedpace ")]


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
    assert (tmp_path / "ca2fl.png").exists()
    assert names["run"].final["accuracy"] > 0.8  # type: ignore[attr-defined]


def test_one_picture_and_ten_lines_of_python() -> None:
    assert README.count("![") == 1
    code = [line for line in "".join(blocks("python")).splitlines() if line]
    assert len(code) <= 10


PAPERS = {
    "FedNova": ("objective-inconsistency", "fednova-heterogeneous"),
    "FedGM": ("fedgm-family", "fedgm-large-lr", "fedgm-multistage", "fedgm-autonomous"),
    "DeFedAvg": ("defedavg-table1", "defedavg-speedup"),
    "bidirectional compression": ("two-way-bits",),
    "CA2FL": ("ca2fl-accuracy", "ca2fl-delay", "ca2fl-sensitivity"),
    "our own claims": ("two-way-defaults", "combined-methods", "robustness"),
}


def verdicts(name: str) -> Counter[str]:
    """The verdicts of an experiment's pages, both editions."""
    pages = json.loads((RESULTS / name / "verdicts.json").read_text()).values()
    return Counter(finding["verdict"] for page in pages for finding in page)


def counted(found: Counter[str]) -> str:
    counts = [found[word] for word in ("reproduced", "contradicted", "undecided", "indicated")]
    return " | ".join(map(str, [*counts, found["not tested"] + found["not run"]])) + " |"


@pytest.mark.parametrize("paper", PAPERS)
def test_a_line_per_paper_sums_the_verdicts_of_its_experiments(paper: str) -> None:
    (row,) = [line for line in README.splitlines() if line.startswith(f"| [{paper}]")]
    total = sum((verdicts(name) for name in PAPERS[paper]), Counter())
    assert row.split(" | ", 1)[1] == counted(total)


def test_the_page_of_evidence_counts_the_verdicts_of_every_experiment() -> None:
    page = (ROOT / "docs" / "evidence.md").read_text()
    for name in reproduce.NAMES:
        rows = [line for line in page.splitlines() if line.startswith(f"| [{name}]")]
        if not (RESULTS / name / "verdicts.json").exists():
            assert rows == [] and f"`{name}`" in page, name
            continue
        assert [row.split(" | ", 2)[2] for row in rows] == [counted(verdicts(name))]
    shown = {name for names in PAPERS.values() for name in names}
    assert shown == {name for name in reproduce.NAMES if (RESULTS / name / "verdicts.json").exists()}


def test_the_rows_of_speed_are_those_of_the_page() -> None:
    """The README shows some columns of some rows of the full table."""
    page = (ROOT / "docs" / "speed.md").read_text()
    columns = (2, 3, 4, 5, 11, 12)  # bare in two processes, pfl-research, FedJAX, Flower, fedpace, of bare
    for workload in ("W1", "W3"):
        (full,) = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith(f"| {workload}:")]
        (short,) = [
            line.split("|")[1:-1] for line in README.splitlines() if line.startswith(f"| {workload}:")
        ]
        assert short == [full[0], *(full[column] for column in columns)]
    (own,) = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| W5:")]
    (short,) = [line.split("|")[1:-1] for line in README.splitlines() if line.startswith("| W5:")]
    assert short == [own[0], own[2], *[" – "] * 3, own[4], own[5]]
