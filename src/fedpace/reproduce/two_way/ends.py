"""What is read off a cell at its end, in particular off those that were not tuned."""

from __future__ import annotations

from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results, SeedSpread
from fedpace.reproduce.two_way.cells import LAST, DataSplit, name_of
from fedpace.reproduce.two_way.firing import fired


def accuracy(results: Results, place: DataSplit, method: str) -> SeedSpread:
    return results.final(name_of(place, method), last=LAST)


def firing(results: Results, place: DataSplit, method: str) -> float:
    return results.spread(name_of(place, method), fired).mean


def missing_untuned(results: Results, place: DataSplit, *methods: str) -> bool:
    return not results.have(*(name_of(place, method) for method in methods))


def end_of(results: Results, method: str, name: str) -> str:
    """Accuracy and traffic at the end of a cell."""
    sent = results.spread(name, total_megabytes).mean
    return f"{method} {results.final(name, last=LAST):.1f} % ({sent:.1f} MB)"


def total_megabytes(outcome: Outcome) -> float:
    return (outcome.bytes_up + outcome.bytes_down) / 1e6
