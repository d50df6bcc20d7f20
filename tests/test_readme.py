"""The README and the pages of speed and evidence are true: tables, commands and Python."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from collections import Counter
from pathlib import Path
from types import ModuleType

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


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


counts = script("_counts")


@pytest.mark.parametrize("paper", [*counts.PAPERS, *counts.OURS])
def test_a_line_per_paper_sums_the_verdicts_on_its_claims(paper: str) -> None:
    (row,) = [line for line in README.splitlines() if line.startswith(f"| [{paper}]")]
    assert row.split(" | ", 1)[1] == counts.of_paper(paper)


def test_no_claim_of_ours_counts_as_a_papers() -> None:
    """All claims are in the table, each once: papers' and ours together are those of the files."""
    shown = Counter[str]()
    for paper in (*counts.PAPERS, *counts.OURS):
        shown[counts.OURS.get(paper, "paper")] += sum(map(int, re.findall(r"\d+", counts.of_paper(paper))))
    claims = {
        (path, row["source"], row["claim"])
        for path in RESULTS.glob("*/verdicts.json")
        for page in json.loads(path.read_text()).values()
        for row in page
    }
    whole = [
        source
        for path, source, claim in claims
        if not counts.is_part(claim, {other for at, _, other in claims if at == path})
    ]
    assert shown == Counter(whole)


def test_of_two_editions_the_one_that_says_more_about_a_claim_counts(tmp_path, monkeypatch) -> None:
    def page(*verdicts: str) -> list[dict[str, str]]:
        return [{"claim": str(at), "verdict": v, "source": "paper"} for at, v in enumerate(verdicts)]

    (tmp_path / "x").mkdir()
    pages = {
        "quick": page("undecided", "contradicted", "not tested", "not run", "undecided", "not tested"),
        "full": page("indicated", "indicated", "not run", "not run", "reproduced", "indicated"),
    }
    (tmp_path / "x" / "verdicts.json").write_text(json.dumps(pages))
    monkeypatch.setattr(counts, "RESULTS", tmp_path)
    found = ("undecided", "contradicted", "not tested", "not run", "reproduced", "indicated")
    assert counts.verdicts("x", "paper") == Counter(found)


def test_parts_of_a_claim_do_not_count_beside_it(tmp_path, monkeypatch) -> None:
    """The full edition may have a row for every n of a claim that the quick one judges as a whole."""

    def row(claim: str, verdict: str) -> dict[str, str]:
        return {"claim": claim, "verdict": verdict, "source": "paper"}

    (tmp_path / "x").mkdir()
    parts = [row("a: n = 10", "indicated"), row("a: n = 20", "not run"), row("a2: n = 10", "indicated")]
    pages = {"quick": [row("a", "undecided")], "full": parts}
    (tmp_path / "x" / "verdicts.json").write_text(json.dumps(pages))
    monkeypatch.setattr(counts, "RESULTS", tmp_path)
    assert counts.verdicts("x", "paper") == Counter(["undecided", "indicated"])


def test_the_page_of_evidence_counts_the_verdicts_of_every_experiment() -> None:
    page = (ROOT / "docs" / "evidence.md").read_text()
    papers, own = (lines.splitlines() for lines in page.split("\n## Our own claims\n"))
    judged = {name for name in reproduce.NAMES if (RESULTS / name / "verdicts.json").exists()}
    assert judged == set(counts.experiments())
    for lines, sources in ((papers, ("paper",)), (own, tuple(counts.OURS.values()))):
        for name in reproduce.NAMES:
            found = counts.verdicts(name, *sources) if name in judged else Counter()
            rows = [line.split(" | ", 2)[2] for line in lines if line.startswith(f"| [{name}]")]
            assert rows == ([counts.counted(found)] if found else []), name
    assert all(f"`{name}`" in page for name in set(reproduce.NAMES) - judged)


def test_the_evidence_leads_to_every_table_and_figure_and_names_no_number_of_seeds_that_goes_stale() -> None:
    [evidence] = re.findall(r"\*\*Evidence\.\*\*.*?\n\n", README, re.DOTALL)
    assert "(docs/results/coverage.md)" in evidence
    for text in (evidence, (ROOT / "docs" / "evidence.md").read_text().partition("\n## ")[0]):
        assert not re.search(r"\b(two|three|four|five|ten) seeds\b", text)


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
    for workload in ("W5", "W6", "W7"):  # which FedJAX has no place for: they are torch modules
        (own,) = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith(f"| {workload}:")]
        (short,) = [
            line.split("|")[1:-1] for line in README.splitlines() if line.startswith(f"| {workload}:")
        ]
        assert short == [own[0], own[2], own[4], " – ", own[3], own[6], own[7]]
