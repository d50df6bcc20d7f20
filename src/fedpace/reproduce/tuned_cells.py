"""Cells that are run twice: at rates in print or fixed before, and at rates tuned for the task that is trained here."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace

from fedpace.reproduce.results import Results


def tuned(name: str) -> str:
    return f"tuned {name}"


def at_tuned_rates(results: Results, names: Iterable[str]) -> Results:
    """The tuned cells in the place of the others, if all of them were run."""
    return in_place_of(results, {name: tuned(name) for name in names})


def in_place_of(results: Results, better: Mapping[str, str]) -> Results:
    """Other cells in the place of these, once all of them were run for as many seeds, or all they have.

    So a tuned method is never compared with one that is not. Comparisons name the cells that they are about.
    """
    if not all(_as_many(results, name, own) for name, own in better.items()):
        return results
    return replace(
        results,
        outcomes=results.outcomes | {name: results.outcomes[own] for name, own in better.items()},
        cells=results.cells | {name: results.cells[own] for name, own in better.items()},
        labels={**results.labels, **better},
    )


def _as_many(results: Results, name: str, own: str) -> bool:
    ran = len(results.of(own))
    return ran > 0 and ran >= min(len(results.of(name)), results.cells[own].seeds or sys.maxsize)
