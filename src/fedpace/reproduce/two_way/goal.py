"""What the study of two_way is to show: its claims, as comparisons between cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedpace.reproduce.comparison import Comparison, Measure, above, final_accuracy, no_worse, times
from fedpace.reproduce.experiment import OWN, Finding, not_run
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way.judging import (
    LAST,
    ONE_WAY,
    ONE_WAY_ROUNDS,
    PLACES,
    PUBLISHED,
    UNCOMPRESSED,
    judging,
)
from fedpace.reproduce.two_way.study import LAZINESS, LAZY, laziness

MARGIN, SHARE, SKIPPED = 0.5, 20, 0.2  # points, of the bytes, of the uploads
SIDES = ("up", "down")
# where the best uncompressed method has another server optimizer than two_way: elsewhere `_goal` is this comparison
SERVER_DIFFERS = tuple(place for place in PLACES if place != "Fashion-MNIST, iid")
LAZIEST = "a quarter"


def findings(edition: str, results: Results) -> list[Finding]:
    return [
        *(_goal(results, place) for place in PLACES),
        *(_same_server(results, place) for place in SERVER_DIFFERS),
        *(_published(results, place) for place in PLACES),
        *(_one_way(results, place) for place in PLACES),
        *(_lazy(results, bed) for bed in LAZINESS),
    ]


def _goal(results: Results, place: str) -> Finding:
    claim = (
        f"a {SHARE}th of the bytes each way, within {MARGIN} points of the best uncompressed method ({place})"
    )
    ours, others = judging(place, "two_way"), rivals(place)
    if not results.have(ours, *others.values()):
        return not_run(claim, OWN)
    hardest = others[best(results, place)]
    told = ", ".join(
        f"{gap:+.2f} points against {method}"
        for method, gap in zip(others, gaps(results, ours, list(others.values())), strict=True)
    )
    text = f"{told}; {ratios(results, hardest, ours)} times fewer bytes up and down"
    close = no_worse(results, ours, hardest, final_accuracy(LAST), MARGIN)
    small = tuple(fewer(results, hardest, ours, side, SHARE) for side in SIDES)
    return Finding(claim, OWN, text, comparisons=(close, *small), family="bytes and accuracy")


def rivals(place: str) -> dict[str, str]:
    return {method: judging(place, method) for method in UNCOMPRESSED}


def best(results: Results, place: str) -> str:
    """The uncompressed method with the highest mean over the judged seeds: the hardest to be close to."""
    return max(UNCOMPRESSED, key=lambda method: results.final(judging(place, method), last=LAST).mean)


def _same_server(results: Results, place: str) -> Finding:
    claim = f"with the same server optimizer and rate, compression costs at most {MARGIN} points ({place})"
    ours = judging(place, "two_way")
    same = [
        name for name in rivals(place).values() if results.have(ours, name) and _same(results, ours, name)
    ]
    if not same:
        return not_run(claim, OWN)
    close = tuple(no_worse(results, ours, name, final_accuracy(LAST), MARGIN) for name in same)
    text = "; ".join(
        f"{gap:+.2f} points against {name.split(': ')[1]}"
        for name, gap in zip(same, gaps(results, ours, same), strict=True)
    )
    return Finding(claim, OWN, text, comparisons=close, family="the same server optimizer")


def _same(results: Results, ours: str, other: str) -> bool:
    return bool(results.cells[ours].algorithm.server_opt == results.cells[other].algorithm.server_opt)


def _published(results: Results, place: str) -> Finding:
    claim = f"at equal bytes ahead of the published two-way methods ({place})"
    ours, theirs = judging(place, "two_way"), [judging(place, method) for method in PUBLISHED]
    if not results.have(ours, *theirs):
        return not_run(claim, OWN)
    text = "; ".join(
        f"{gap:+.2f} points against {name.split(': ')[1]}, with {ratios(results, name, ours)} times fewer bytes up "
        "and down"
        for name, gap in zip(theirs, gaps(results, ours, theirs), strict=True)
    )
    ahead = tuple(above(results, ours, name, final_accuracy(LAST)) for name in theirs)
    small = tuple(fewer(results, name, ours, side) for name in theirs for side in SIDES)
    return Finding(claim, OWN, text, comparisons=(*ahead, *small), family="against the published methods")


def _one_way(results: Results, place: str) -> Finding:
    claim = f"at equal bytes, both ways together, ahead of published methods that compress one way or none ({place})"
    ours, theirs = judging(place, "two_way"), [judging(place, method) for method in ONE_WAY]
    if not results.have(ours, *theirs):
        return not_run(claim, OWN)
    text = "; ".join(
        f"{gap:+.2f} points against {method}, {rounds} rounds"
        for (method, rounds), gap in zip(ONE_WAY_ROUNDS.items(), gaps(results, ours, theirs), strict=True)
    )
    ahead = tuple(above(results, ours, name, final_accuracy(LAST)) for name in theirs)
    small = tuple(times(results, name, ours, 1.0, _in_all, f"bytes: {name}, {ours}") for name in theirs)
    return Finding(claim, OWN, text, comparisons=(*ahead, *small), family="against the published methods")


def _in_all(outcome: Any) -> float:
    return float(outcome.bytes_up + outcome.bytes_down)


def gaps(results: Results, ours: str, others: Sequence[str]) -> list[float]:
    """Points of accuracy between one cell and others, on average over the seeds of both."""
    measure = final_accuracy(LAST)
    return [above(results, ours, other, measure).difference.mean for other in others]


def fewer(results: Results, more: str, less: str, side: str, factor: float = 1.0) -> Comparison:
    return times(results, more, less, factor, _sent(side), f"bytes {side}: {more}, {factor:g} times {less}")


def _sent(side: str) -> Measure:
    return lambda outcome: float(getattr(outcome, f"bytes_{side}"))


def ratios(results: Results, more: str, less: str) -> str:
    """How many times as much one cell sends, up and down."""
    sums = [[results.spread(name, _sent(side)).mean for side in SIDES] for name in (more, less)]
    return " and ".join(f"{large / small:.2f}" for large, small in zip(*sums, strict=True))


def _lazy(results: Results, bed: str) -> Finding:
    claim = (
        f"a lazy uplink (asked to skip {LAZIEST}) skips {SKIPPED:.0%} at no more than {MARGIN} points ({bed})"
    )
    base, lazy = laziness(bed, "never"), laziness(bed, LAZIEST)
    if not results.have(base, lazy):
        return not_run(claim, OWN)
    names = {label: laziness(bed, label) for label in LAZY if label != "never"}
    ran = {label: name for label, name in names.items() if results.have(name)}
    lost = dict(zip(ran, (-gap for gap in gaps(results, base, list(ran.values()))), strict=True))
    fired = {label: results.spread(name, skipped).mean for label, name in ran.items()}
    text = "; ".join(f"{label}: {fired[label]:.0%} skipped, {lost[label]:+.2f} points" for label in ran)
    often = above(results, lazy, lazy, skipped)
    comparisons = (
        Comparison(f"skipped above {SKIPPED:.0%}", often.seeds, often.larger, (SKIPPED,) * len(often.seeds)),
        no_worse(results, lazy, base, final_accuracy(LAST), MARGIN),
    )
    return Finding(claim, OWN, text, comparisons=comparisons, family="lazy uplink")


def skipped(outcome: Any, side: str = "up") -> float:
    """The share of frames in which a lazy rule acted."""
    return float(outcome.traffic.get(side, {}).get("firing_rate", 0.0))
