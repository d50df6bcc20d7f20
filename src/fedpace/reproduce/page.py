"""The page of an experiment, and the index of all of them: Markdown that is committed with its pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from fedpace.disk import files
from fedpace.errors import ConfigError
from fedpace.record.report import plot
from fedpace.reproduce.estimate import duration
from fedpace.reproduce.experiment import EDITIONS, Finding, Reproduction, Table, Verdict
from fedpace.reproduce.results import Results

MARKS = {
    Verdict.REPRODUCED: "✔ reproduced",
    Verdict.NOT_REPRODUCED: "✘ not reproduced",
    Verdict.NOT_TESTABLE: "– not testable here",
    Verdict.NOT_RUN: "– not run here",
}
VERDICTS = "verdicts.json"


def write(experiment: Reproduction, edition: str, results: Results, folder: Path, command: str) -> Path:
    """The page, its pictures, the measured figures as CSV, and the verdicts for the index."""
    here = folder / experiment.name
    here.mkdir(parents=True, exist_ok=True)
    findings = experiment.procedure.findings(edition, results)
    drawn = experiment.procedure.pictures(edition, results).items()
    pictures = {name: figure for name, figure in drawn if any(axes.has_data() for axes in figure.axes)}
    for name, figure in pictures.items():
        plot.save(figure, here / f"{edition}-{name}.png")
    files.write(here / f"{edition}.csv", measured(results).encode())
    page = here / ("README.md" if edition == "quick" else f"{edition}.md")
    names = [f"{edition}-{name}.png" for name in pictures]
    other = "full.md" if edition == "quick" else "README.md"
    link = f"; [the other edition]({other})" if (here / other).exists() else ""
    text = _page(experiment, f"**{edition}**{link}", edition, results, findings, names, command)
    files.write(page, text.encode())
    _keep_verdicts(here, edition, findings)
    return page


def require_no_fewer(experiment: Reproduction, edition: str, results: Results, folder: Path) -> None:
    """Refuse to replace a page that was made from more runs than are finished."""
    measured_before = folder / experiment.name / f"{edition}.csv"
    before = (
        len(measured_before.read_text(encoding="utf-8").splitlines()) - 1 if measured_before.exists() else 0
    )
    now = sum(map(len, results.outcomes.values()))
    if now < before:
        raise ConfigError(
            f"the page to replace, {measured_before.parent}, must not be made from more runs than yours ({now}); got "
            f"{before}: give another folder with --out, your runs are kept"
        )


def _page(
    experiment: Reproduction,
    shown: str,
    edition: str,
    results: Results,
    findings: Sequence[Finding],
    pictures: Sequence[str],
    command: str,
) -> str:
    parts = [
        f"# {experiment.title}",
        f"{experiment.source}. Edition: {shown}.",
        experiment.summary,
        "## Claims",
        _verdict_table(findings),
        _notes(findings),
        *(f"![{experiment.title}]({name})" for name in pictures),
        *(
            f"## {table.title}\n\n{markdown(table)}"
            for table in experiment.procedure.tables(edition, results)
        ),
        "## Setting",
        markdown(
            Table(
                "", ("", "paper", "here"), [(s.what, s.paper, s.here) for s in experiment.settings[edition]]
            )
        ),
        experiment.notes.get(edition, ""),
        "## How this page was made",
        _made(edition, results, command),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _verdict_table(findings: Sequence[Finding]) -> str:
    rows = [(f.claim, f.published, f.ours, MARKS[f.verdict]) for f in findings]
    return markdown(Table("", ("claim", "published", "ours", "verdict"), rows))


def _notes(findings: Sequence[Finding]) -> str:
    return "\n".join(f"- *{finding.claim}*: {finding.note}" for finding in findings if finding.note)


def _made(edition: str, results: Results, command: str) -> str:
    runs = sum(len(own) for own in results.outcomes.values())
    seeds = f"{results.seeds} seed{'s' * (results.seeds != 1)}"
    return (
        f"```\n{command}\n```\n\n"
        f"{runs} runs, {seeds}, {duration(results.real_seconds)} of real time summed over runs, on a machine shared "
        f"with other work. Every run's figures are in [{edition}.csv]({edition}.csv)."
    )


def markdown(table: Table) -> str:
    """A Markdown table; the first column is text, the others are centred."""
    lines = [table.header, ["---", *[":---:"] * (len(table.header) - 1)], *table.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def measured(results: Results) -> str:
    """One line per run."""
    lines = [
        "cell,seed,ended,steps,virtual_seconds,bytes_up,bytes_down,accuracy,loss,"
        "mean_staleness,max_staleness,real_seconds"
    ]
    for name, runs in results.outcomes.items():
        for seed, run in sorted(runs.items()):
            figures = [
                f'"{name}"',
                str(seed),
                run.ended,
                str(run.steps),
                f"{run.seconds:.6g}",
                str(run.bytes_up),
                str(run.bytes_down),
                _number(run.final("accuracy")),
                _number(run.final("loss")),
                f"{run.mean_staleness:.4f}",
                str(run.max_staleness),
                f"{run.real_seconds:.2f}",
            ]
            lines.append(",".join(figures))
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return "" if value != value else f"{value:.6g}"


# ------------------------------------------------------------------------------------------- the index


def _keep_verdicts(here: Path, edition: str, findings: Sequence[Finding]) -> None:
    path = here / VERDICTS
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known[edition] = [asdict(finding) for finding in findings]
    files.write(path, (json.dumps(known, indent=1, ensure_ascii=False) + "\n").encode())


def write_index(experiments: Sequence[Reproduction], folder: Path) -> Path:
    """docs/results/README.md, from the verdicts that lie beside the pages."""
    rows = [row for experiment in experiments for row in _index_rows(experiment, folder)]
    counts = {verdict: sum(row[-1].startswith(MARKS[verdict]) for row in rows) for verdict in Verdict}
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    text = "\n\n".join(
        [
            "# Against the papers",
            "Every table and figure of the papers that fedpace implements, as a command with the published "
            "numbers beside ours. `fedpace reproduce list` shows them, "
            "`fedpace reproduce NAME --edition quick --seeds 3` runs one and writes its page; "
            "[reproduce.md](../reproduce.md) explains how.",
            f"{len(rows)} claims: {summary}.",
            markdown(Table("", ("experiment", "edition", "claim", "published", "ours", "verdict"), rows)),
        ]
    )
    path = folder / "README.md"
    files.write(path, (text + "\n").encode())
    return path


def _index_rows(experiment: Reproduction, folder: Path) -> list[tuple[str, ...]]:
    path = folder / experiment.name / VERDICTS
    known: Mapping[str, list[dict[str, str]]] = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    )
    rows: list[tuple[str, ...]] = []
    for edition in EDITIONS:
        page = f"{experiment.name}/{'README.md' if edition == 'quick' else edition + '.md'}"
        for finding in known.get(edition, []):
            link = f"[{experiment.name}]({page})"
            rows.append(
                (
                    link,
                    edition,
                    finding["claim"],
                    finding["published"],
                    finding["ours"],
                    MARKS[Verdict(finding["verdict"])],
                )
            )
    return rows
