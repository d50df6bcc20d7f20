"""Verdicts: what the comparisons of a claim say, with Holm's correction over a paper's claims of one figure or table.

Claims of ours beside them are corrected among themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedpace import statistics
from fedpace.reproduce.comparison import Comparison
from fedpace.reproduce.experiment import OWN, ClaimSource, Finding, Reproduction, Verdict, family_of
from fedpace.reproduce.results import Results

LEVEL = 0.05
LEAST = (
    3  # pairs below which nothing is decided: with two the test rests on its assumption of normality alone
)
BYTES = "bytes"  # how the name of a comparison of bytes begins
FEW = 5  # pairs below which a page says that an undecided claim rests on few seeds


def findings(experiment: Reproduction, edition: str, results: Results) -> list[Finding]:
    """The claims of an experiment, judged."""
    return settled(edition, experiment.procedure.findings(edition, results))


def settled(edition: str, claims: Sequence[Finding]) -> list[Finding]:
    """Each claim with comparisons gets verdict, p, interval and number of seeds.

    Claims with too few seeds to be decided cost the others of their family nothing.
    """
    weighed = [_weighed(_sourced(claim)) for claim in claims]
    adjusted: dict[int, float | None] = {}
    families = [(family_of(claim.family), claim.source) for claim in weighed]
    for family in set(families):
        places = [at for at, own in enumerate(families) if own == family and weighed[at].seeds >= LEAST]
        adjusted |= dict(zip(places, statistics.holm([weighed[at].p for at in places]), strict=True))
    return [_decided(edition, claim, adjusted.get(at)) for at, claim in enumerate(weighed)]


def _sourced(claim: Finding) -> Finding:
    return replace(claim, source=ClaimSource.OWN) if claim.published == OWN else claim


def _weighed(claim: Finding) -> Finding:
    """With the p and seeds of the comparison that decides, and its interval."""
    if not claim.comparisons:
        return claim
    _, p = decisive(claim.comparisons)
    shown, _ = decisive(_in_one_unit(claim.comparisons))
    pairs = min(len(comparison.seeds) for comparison in claim.comparisons)
    return replace(claim, seeds=pairs, p=p, interval=shown.interval if shown.seeds else None)


def _in_one_unit(comparisons: Sequence[Comparison]) -> Sequence[Comparison]:
    """Without counts of bytes where a claim is about accuracy too: an interval is one of points then."""
    return [one for one in comparisons if not one.what.startswith(BYTES)] or comparisons


def decisive(comparisons: Sequence[Comparison]) -> tuple[Comparison, float | None]:
    """The weakest link, or the strongest contradiction if the means of some speak against the claim.

    All comparisons together make the claim, so its p is the largest of theirs. One against it contradicts it, so that
    p is the smallest of those against it times their number.
    """
    empty = next((one for one in comparisons if not one.seeds), None)
    if empty is not None:
        return empty, None
    against = [one for one in comparisons if not one.as_claimed]
    if not against:
        weakest = max(comparisons, key=_p)
        return weakest, weakest.p
    strongest = min(against, key=_p)
    return strongest, None if strongest.p is None else min(1.0, strongest.p * len(against))


def _p(comparison: Comparison) -> float:
    return 1.0 if comparison.p is None else comparison.p


def _decided(edition: str, claim: Finding, adjusted: float | None) -> Finding:
    if not claim.comparisons:
        return claim
    return replace(claim, verdict=_verdict(edition, claim, adjusted), p=adjusted)


def _verdict(edition: str, claim: Finding, adjusted: float | None) -> Verdict:
    as_claimed = claim.seeds > 0 and all(one.as_claimed for one in claim.comparisons)
    if claim.seeds == 1 and edition == "full" and as_claimed:
        return Verdict.INDICATED
    if claim.seeds < LEAST or adjusted is None or adjusted >= LEVEL:
        return Verdict.UNDECIDED
    return Verdict.REPRODUCED if as_claimed else Verdict.CONTRADICTED
