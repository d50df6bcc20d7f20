"""Cells that are run twice: at rates in print or fixed before, and at rates tuned for the task that is trained here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fedpace.reproduce.results import Results


def tuned(name: str) -> str:
    return f"tuned {name}"


def at_tuned_rates(results: Results, names: Iterable[str]) -> Results:
    """The tuned cells under the names of the others, if all of them were run; else the results as they are.

    So a tuned method is never compared with one that is not.
    """
    best = {tuned(name): name for name in names}
    if not results.have(*best):
        return results
    kept = {name: own for name, own in results.outcomes.items() if name not in best.values()}
    return replace(results, outcomes={best.get(name, name): own for name, own in kept.items()})
