"""Write the counts of verdicts into README.md and docs/evidence.md: run it after pages of docs/results/ changed.

A paper's row counts that paper's claims; our own, and expectations of small studies, are in rows of their own. The rows
themselves are written by hand, and a test holds them to be all of them: this fills in the numbers.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
WORDS = ("reproduced", "contradicted", "undecided", "indicated")
OPEN = ("not tested", "not run")
SAYS = (
    "not run",
    "not tested",
    "indicated",
    "undecided",
)  # from little to more: one seed says less than a test over several, and a test that decides says most
EDITIONS = ("quick", "full")
PAPERS = {
    "FedNova": ("objective-inconsistency", "fednova-heterogeneous"),
    "FedGM": ("fedgm-family", "fedgm-large-lr", "fedgm-multistage", "fedgm-autonomous"),
    "DeFedAvg": ("defedavg-table1", "defedavg-speedup"),
    "bidirectional compression": ("two-way-bits",),
    "CA2FL": ("ca2fl-accuracy", "ca2fl-delay", "ca2fl-sensitivity"),
}
OURS = {"our own claims": "own", "expected from toy studies": "toy"}  # rows of the README and their sources


def verdicts(name: str, *sources: str) -> Counter[str]:
    """Of the claims of these sources on an experiment's pages.

    A claim counts once, by the edition that says most about it; the quick one, which has more seeds, if both do. Rows
    of parts of a claim do not count beside it.
    """
    pages = json.loads((RESULTS / name / "verdicts.json").read_text(encoding="utf-8"))
    rows = [row for edition in EDITIONS for row in pages.get(edition, ())]
    claims = {row["claim"] for row in rows}
    found: dict[str, str] = {}
    for row in (row for row in rows if row["source"] in sources and not is_part(row["claim"], claims)):
        claim, verdict = row["claim"], row["verdict"]
        if claim not in found or _said(verdict) > _said(found[claim]):
            found[claim] = verdict
    return Counter(found.values())


def is_part(claim: str, claims: Iterable[str]) -> bool:
    """Whether it is `another claim of the page: some place`."""
    return any(claim.startswith(f"{whole}: ") for whole in claims)


def _said(verdict: str) -> int:
    return SAYS.index(verdict) if verdict in SAYS else len(SAYS)


def counted(found: Counter[str]) -> str:
    """The numbers of a row."""
    counts = [found[word] for word in WORDS]
    return " | ".join(map(str, [*counts, sum(found[word] for word in OPEN)])) + " |"


def experiments() -> list[str]:
    return sorted(path.parent.name for path in RESULTS.glob("*/verdicts.json"))


def of_paper(paper: str) -> str:
    """The numbers of a row of the README."""
    if paper in OURS:
        return counted(sum((verdicts(name, OURS[paper]) for name in experiments()), Counter()))
    return counted(sum((verdicts(name, "paper") for name in PAPERS[paper]), Counter()))


def readme(text: str) -> str:
    for paper in (*PAPERS, *OURS):
        text = re.sub(
            rf"(?m)^(\| \[{paper}\][^|]*\| ).*$", lambda row, paper=paper: row[1] + of_paper(paper), text
        )
    return text


def evidence(text: str) -> str:
    """Rows of the papers' sections, then those of our own."""
    papers, heading, own = text.partition("\n## Our own claims\n")
    return _filled(papers, "paper") + heading + _filled(own, *OURS.values())


def _filled(text: str, *sources: str) -> str:
    def row(found: re.Match[str]) -> str:
        return found[1] + counted(verdicts(found[2], *sources))

    return re.sub(r"(?m)^(\| \[([\w-]+)\]\(results/[^|]*\|[^|]*\| ).*$", row, text)


def main() -> int:
    for path, filled in ((ROOT / "README.md", readme), (ROOT / "docs" / "evidence.md", evidence)):
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
