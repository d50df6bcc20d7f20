"""The values behind the verdicts as CSV, and the verdicts judged anew from it: no run and no experiment is needed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedpace.disk import files
from fedpace.errors import ConfigError
from fedpace.reproduce.comparison import Comparison
from fedpace.reproduce.experiment import ClaimSource, Finding, Verdict
from fedpace.reproduce.judgement import settled

VERDICTS = "verdicts.json"
COLUMNS = ("claim", "family", "comparison", "scale", "margin", "seed", "larger", "smaller")
DIGITS = 4  # of p and interval in the file of verdicts

Evidence = Mapping[str, tuple[str, tuple[Comparison, ...]]]  # claim -> family and comparisons


def table_name(edition: str) -> str:
    return f"{edition}-claims.csv"


def to_csv(findings: Sequence[Finding]) -> str:
    """One line per claim, comparison and seed, with every digit; one without a seed for a comparison without pairs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for finding in findings:
        for one in finding.comparisons:
            about = (finding.claim, finding.family, one.what, "ratio" if one.ratio else "difference")
            margin = "" if one.margin is None else repr(one.margin)
            for seed, larger, smaller in zip(one.seeds, one.larger, one.smaller, strict=True):
                writer.writerow((*about, margin, seed, repr(larger), repr(smaller)))
            if not one.seeds:
                writer.writerow((*about, margin, "", "", ""))
    return text.getvalue()


def from_csv(text: str) -> Evidence:
    found: dict[str, tuple[str, dict[str, list[dict[str, str]]]]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        _, comparisons = found.setdefault(row["claim"], (row["family"], {}))
        comparisons.setdefault(row["comparison"], []).append(row)
    return {
        claim: (family, tuple(_comparison(what, rows) for what, rows in comparisons.items()))
        for claim, (family, comparisons) in found.items()
    }


def _comparison(what: str, rows: Sequence[Mapping[str, str]]) -> Comparison:
    first, pairs = rows[0], [row for row in rows if row["seed"]]
    return Comparison(
        what,
        tuple(int(row["seed"]) for row in pairs),
        tuple(float(row["larger"]) for row in pairs),
        tuple(float(row["smaller"]) for row in pairs),
        float(first["margin"]) if first["margin"] else None,
        first["scale"] == "ratio",
    )


# ------------------------------------------------------------------------------------- the file of verdicts


def read_verdicts(folder: Path) -> dict[str, list[Finding]]:
    """By edition; empty where there is no file yet."""
    path = folder / VERDICTS
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {edition: [_finding(row) for row in rows] for edition, rows in known.items()}


def write_verdicts(folder: Path, edition: str, findings: Sequence[Finding]) -> None:
    """Those of the other edition stay."""
    known = {**read_verdicts(folder), edition: list(findings)}
    rows = {name: [_row(finding) for finding in every] for name, every in known.items()}
    files.write(folder / VERDICTS, (json.dumps(rows, indent=1, ensure_ascii=False) + "\n").encode())


def rejudged(folder: Path, edition: str, named: Sequence[Finding] = ()) -> list[Finding]:
    """The committed claims of an edition, their verdicts recomputed from the CSV beside them.

    Of the claims that the experiment names, those that came after the page was made are added as they are: not run.
    What was not run and is no longer named goes; what is still named has its source and published values of now.
    """
    path = folder / table_name(edition)
    if not path.exists():
        raise ConfigError(f"{path} must exist to judge from it; run `fedpace reproduce {folder.name}` first")
    known = from_csv(path.read_text(encoding="utf-8"))
    names = {finding.claim: finding for finding in named}
    committed = [
        _as_named(finding, names)
        for finding in read_verdicts(folder).get(edition, [])
        if not names or finding.claim in names or finding.verdict is not Verdict.NOT_RUN
    ]
    later = [finding for finding in named if finding.claim not in {one.claim for one in committed}]
    return settled(edition, [*(_with(finding, known) for finding in committed), *later])


def _as_named(finding: Finding, names: Mapping[str, Finding]) -> Finding:
    """A row without runs follows the code; one with runs keeps what was claimed when they were judged."""
    if finding.verdict is not Verdict.NOT_RUN or finding.claim not in names:
        return finding
    now = names[finding.claim]
    return replace(finding, source=now.source, published=now.published)


def _with(finding: Finding, known: Evidence) -> Finding:
    family, comparisons = known.get(finding.claim, ("", ()))
    return replace(finding, family=family, comparisons=comparisons)


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "claim": finding.claim,
        "published": finding.published,
        "ours": finding.ours,
        "verdict": str(finding.verdict),
        "seeds": finding.seeds,
        "p": _rounded(finding.p),
        "interval": None if finding.interval is None else [_rounded(end) for end in finding.interval],
        "source": str(finding.source),
        "note": finding.note,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


def _finding(row: Mapping[str, Any]) -> Finding:
    interval = row["interval"]
    return Finding(
        row["claim"],
        row["published"],
        row["ours"],
        Verdict(row["verdict"]),
        row["note"],
        source=ClaimSource(row["source"]),
        seeds=row["seeds"],
        p=row["p"],
        interval=None if interval is None else (interval[0], interval[1]),
    )
