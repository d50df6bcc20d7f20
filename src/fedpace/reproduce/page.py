"""The page of an experiment, and the index of all of them: Markdown that is committed with its pictures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedpace.disk import files
from fedpace.record.report import plot
from fedpace.reproduce import archive, evidence
from fedpace.reproduce.estimate import duration
from fedpace.reproduce.experiment import EDITIONS, ClaimSource, Finding, Reproduction, Table, Verdict
from fedpace.reproduce.judgement import FEW
from fedpace.reproduce.judgement import findings as judged_findings
from fedpace.reproduce.page_runs import require_no_fewer
from fedpace.reproduce.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = {
    Verdict.REPRODUCED: "✔ reproduced",
    Verdict.CONTRADICTED: "✘ contradicted",
    Verdict.UNDECIDED: "? undecided",
    Verdict.INDICATED: "(✔) indicated",
    Verdict.NOT_TESTED: "– not tested",
    Verdict.NOT_RUN: "– not run",
}
CLAIMS = "## Claims"
BANDS = "Bands and error bars in the pictures are one standard deviation over seeds."
SMALLEST_P = 1e-12  # below it the normal distribution that p assumes is not to be trusted


def write(experiment: Reproduction, edition: str, results: Results, folder: Path, command: str) -> Path:
    """The page, its pictures, the measured figures as CSV, and the verdicts for the index."""
    require_no_fewer(experiment, edition, results, folder)
    here = folder / experiment.name
    here.mkdir(parents=True, exist_ok=True)
    findings = judged_findings(experiment, edition, results)
    drawn = experiment.procedure.pictures(edition, results).items()
    pictures = {name: figure for name, figure in drawn if any(axes.has_data() for axes in figure.axes)}
    for name, figure in pictures.items():
        plot.save(figure, here / f"{edition}-{name}.png")
    files.write(here / f"{edition}.csv", measured(results).encode())
    files.write(here / evidence.table_name(edition), evidence.to_csv(findings).encode())
    archive.write(here / archive.archive_name(edition), results)
    page = here / _page_name(edition)
    images = "\n\n".join(f"![{experiment.title}]({edition}-{name}.png)" for name in pictures)
    spread = any(_shows_spread(figure) for figure in pictures.values())
    shown = f"{images}\n\n{BANDS}" if spread and results.seeds > 1 else images
    other = "full.md" if edition == "quick" else "README.md"
    link = f"; [the other edition]({other})" if (here / other).exists() else ""
    text = _page(experiment, f"**{edition}**{link}", edition, results, findings, shown, command)
    files.write(page, text.encode())
    evidence.write_verdicts(here, edition, findings)
    return page


def rejudge(here: Path, edition: str, experiment: Reproduction | None = None) -> list[Finding]:
    """Verdicts from the CSV of a page: the file of verdicts and the page's claims are written anew.

    With the experiment, claims that the page was made before are listed too.
    """
    named = [] if experiment is None else experiment.procedure.findings(edition, Results())
    findings = evidence.rejudged(here, edition, named)
    evidence.write_verdicts(here, edition, findings)
    page = here / _page_name(edition)
    if page.exists():
        text = page.read_text(encoding="utf-8")
        section = rf"{CLAIMS}\n.*?(?=\n!\[|\n## )"
        claims = _claims(findings) + "\n"
        files.write(page, re.sub(section, lambda _: claims, text, count=1, flags=re.DOTALL).encode())
    return findings


def _page_name(edition: str) -> str:
    return "README.md" if edition == "quick" else f"{edition}.md"


def _shows_spread(figure: Figure) -> bool:
    """Bands and error bars are collections; lines and bars without are not."""
    return any(axes.collections for axes in figure.axes)


def _page(
    experiment: Reproduction,
    editions: str,
    edition: str,
    results: Results,
    findings: Sequence[Finding],
    pictures: str,
    command: str,
) -> str:
    parts = [
        f"# {experiment.title}",
        f"{experiment.source}. Edition: {editions}.",
        experiment.summary,
        _claims(findings),
        pictures,
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
        _flowed(experiment.notes.get(edition, "")),
        "## How this page was made",
        _made(edition, results, command),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _flowed(text: str) -> str:
    """Every paragraph on one line, as in the rest of the page."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def _claims(findings: Sequence[Finding]) -> str:
    return "\n\n".join(
        part
        for part in (
            CLAIMS,
            _verdict_table(findings),
            _what_intervals_are(findings),
            _few(findings),
            _notes(findings),
        )
        if part
    )


def _verdict_table(findings: Sequence[Finding]) -> str:
    rows = [
        (_claim(f), f.published, f.ours, MARKS[f.verdict], str(f.seeds or ""), _p(f), _interval(f))
        for f in findings
    ]
    header = ("claim", "published", "ours", "verdict", "seeds", "p (Holm)", "interval")
    return markdown(Table("", header, rows))


def _claim(finding: Finding) -> str:
    return finding.claim if finding.source is ClaimSource.PAPER else f"{finding.claim} *({finding.source})*"


def _p(finding: Finding) -> str:
    if finding.p is None:
        return ""
    return f"{finding.p:.2g}" if finding.p >= SMALLEST_P else f"< {SMALLEST_P:g}"


def _interval(finding: Finding) -> str:
    return "" if finding.interval is None else "{:.3g} to {:.3g}".format(*finding.interval)


def _what_intervals_are(findings: Sequence[Finding]) -> str:
    if all(finding.interval is None for finding in findings):
        return ""
    return (
        "Intervals are those of the comparison that decides: a difference, or a ratio of costs (95 %), with the margin "
        "added where a claim is “not more than so much below”; for “as good as” the 90 % interval, to lie within the "
        "margin. The verdict is by p, corrected for the number of claims (Holm). Intervals are not corrected: one that "
        "lies above 0, or above 1, may belong to an undecided claim."
    )


def _few(findings: Sequence[Finding]) -> str:
    few = [f for f in findings if f.verdict is Verdict.UNDECIDED and f.seeds < FEW]
    if not few:
        return ""
    claims = (
        "1 undecided claim of this page rests"
        if len(few) == 1
        else f"{len(few)} undecided claims of this page rest"
    )
    return f"{claims} on fewer than {FEW} seeds: more runs may settle {'it' if len(few) == 1 else 'them'}."


def _notes(findings: Sequence[Finding]) -> str:
    return "\n".join(f"- *{finding.claim}*: {finding.note}" for finding in findings if finding.note)


def _made(edition: str, results: Results, command: str) -> str:
    runs = sum(len(own) for own in results.outcomes.values())
    named = sum(len(own) for name, own in results.outcomes.items() if results.cells[name].by_name)
    only = f" ({named} of them of cells that are run only where `--only` names them)" if named else ""
    tuned = " Settings were chosen before, with `--tune`, and are committed." if results.choices else ""
    return (
        f"```\n{command}\n```\n\n"
        f"{runs} runs{only}, {_seeds(results)}, {duration(results.real_seconds)} of real time summed over runs, on a "
        f"machine shared with other work.{tuned} With `--extend` only runs that are not committed are run. Every run's "
        f"figures are in [{edition}.csv]({edition}.csv), the values behind the verdicts in "
        f"[{evidence.table_name(edition)}]({evidence.table_name(edition)}), the runs themselves in "
        f"[{archive.archive_name(edition)}]({archive.archive_name(edition)})."
    )


def _seeds(results: Results) -> str:
    fewest = min((len(own) for own in results.outcomes.values()), default=0)
    several = f"{fewest} to " if fewest < results.seeds else ""
    return f"{several}{results.seeds} seed{'s' * (results.seeds != 1)}"


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


def write_index(experiments: Sequence[Reproduction], folder: Path) -> Path:
    """docs/results/README.md, from the verdicts that lie beside the pages."""
    every = [(e, edition, f) for e in experiments for edition, f in _known(e, folder)]
    text = "\n\n".join(
        [
            "# Against the papers",
            "Claims of the papers that fedpace implements, as commands with the published numbers beside ours; "
            "[coverage.md](coverage.md) lists the tables and figures in their texts at hand, done or not. "
            "`fedpace reproduce list` shows the experiments, `fedpace reproduce NAME` runs one and writes its page, "
            "`fedpace reproduce NAME --verdicts` judges again from its CSV; [reproduce.md](../reproduce.md) "
            "explains how. Rows and counts are of each edition by itself.",
            markdown(
                Table("", ("", *(str(verdict) for verdict in Verdict)), _counts([f for _, _, f in every]))
            ),
            markdown(
                Table(
                    "",
                    ("experiment", "edition", "claim", "published", "ours", "verdict"),
                    [_index_row(*row) for row in every],
                )
            ),
        ]
    )
    path = folder / "README.md"
    files.write(path, (text + "\n").encode())
    return path


def _known(experiment: Reproduction, folder: Path) -> list[tuple[str, Finding]]:
    verdicts = evidence.read_verdicts(folder / experiment.name)
    return [(edition, finding) for edition in EDITIONS for finding in verdicts.get(edition, [])]


def _counts(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Claims by source and verdict."""
    titles = {
        ClaimSource.PAPER: "claims of papers",
        ClaimSource.OWN: "our own",
        ClaimSource.TOY: "expected from toy studies",
    }
    found = Counter((finding.source, finding.verdict) for finding in findings)
    return [
        (title, *(str(found[source, verdict]) for verdict in Verdict)) for source, title in titles.items()
    ]


def _index_row(experiment: Reproduction, edition: str, finding: Finding) -> tuple[str, ...]:
    link = f"[{experiment.name}]({experiment.name}/{_page_name(edition)})"
    return link, edition, _claim(finding), finding.published, finding.ours, MARKS[finding.verdict]
