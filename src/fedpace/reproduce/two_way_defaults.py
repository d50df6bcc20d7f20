"""The defaults of two_way: the page of the study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.comparison import above, final_accuracy
from fedpace.reproduce.experiment import OWN, Procedure, Reproduction, SettingRow, Table
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way_goal import (
    MARGIN,
    SHARE,
    SIDES,
    best,
    fewer,
    findings,
    gaps,
    ratios,
    rivals,
    skipped,
)
from fedpace.reproduce.two_way_judging import (
    EVERY,
    LAST,
    PLACES,
    PUBLISHED,
    UNCOMPRESSED,
    UNTUNED,
    UPLINKS,
    grids,
    judging,
)
from fedpace.reproduce.two_way_study import (
    BASE_LABEL,
    EVERYWHERE,
    LAZINESS,
    LAZY,
    SEEDS,
    TUNING,
    VARIED,
    beds,
    cells,
    laziness,
    tuned,
    tuning,
)
from fedpace.statistics import equivalence

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def tables(edition: str, results: Results) -> list[Table]:
    judged = ["two_way", UNTUNED, *EVERY]
    found = [_goals(results), _ahead(results)]
    found += [
        _table(results, f"Tuning: {bed}", list(tuned(edition, bed)), tuning, bed) for bed in beds(edition)
    ]
    found += [_table(results, f"Lazy uplinks: {bed}", list(LAZY), laziness, bed) for bed in LAZINESS]
    found += [_table(results, f"Judging: {place}", judged, judging, place) for place in PLACES]
    return [table for table in found if table.rows]


def _goals(results: Results) -> Table:
    """The goal by the interval that it was set with: 90 %, paired, not corrected for the number of places."""
    header = (
        "",
        "best uncompressed",
        "points",
        "90 % interval",
        "bytes up, down",
        f"within {MARGIN}, a {SHARE}th",
    )
    rows = [
        (place, *_met(results, place))
        for place in PLACES
        if results.have(judging(place, "two_way"), *rivals(place).values())
    ]
    return Table("The goal by its own criterion", header, rows)


def _met(results: Results, place: str) -> tuple[str, ...]:
    hardest = best(results, place)
    ours, other = judging(place, "two_way"), judging(place, hardest)
    pairs = above(results, ours, other, final_accuracy(LAST))
    found = equivalence(pairs.larger, pairs.smaller, MARGIN)
    small = [fewer(results, other, ours, side, SHARE) for side in SIDES]
    enough = all(min(a - b for a, b in zip(one.larger, one.smaller, strict=True)) >= 0 for one in small)
    met = found.low is not None and found.low > -MARGIN and enough
    between = "" if found.low is None else f"{found.low:+.2f} to {found.high:+.2f}"
    return hardest, f"{found.mean:+.2f}", between, ratios(results, other, ours), "met" if met else "missed"


def _ahead(results: Results) -> Table:
    """What the defaults are decided by: points ahead of the base, on the seeds that both have."""
    where = [bed for bed in TUNING if results.have(tuning(bed, BASE_LABEL))]
    rows = [
        (label, *_ahead_of_base(results, label, where))
        for label in EVERYWHERE
        if label != BASE_LABEL and any(results.have(tuning(bed, label)) for bed in where)
    ]
    return Table("Points ahead of the base on the tuning tasks", ("", *where, "mean"), rows)


def _ahead_of_base(results: Results, label: str, where: list[str]) -> list[str]:
    """On each task, and on average where all were run."""
    ran = [bed for bed in where if results.have(tuning(bed, label))]
    ahead = {bed: gaps(results, tuning(bed, label), [tuning(bed, BASE_LABEL)])[0] for bed in ran}
    shown = [f"{ahead[bed]:+.2f}" if bed in ahead else "not run" for bed in where]
    return [*shown, f"{sum(ahead.values()) / len(ahead):+.2f}" if ran == where else ""]


def _table(results: Results, title: str, labels: list[str], named: Any, where: str) -> Table:
    header = ("", "accuracy %", "up MB", "down MB", "skipped", "seeds")
    rows = [
        (label, *_line(results, named(where, label))) for label in labels if results.have(named(where, label))
    ]
    return Table(title, header, rows)


def _line(results: Results, name: str) -> tuple[str, ...]:
    up, down = (
        results.spread(name, lambda outcome, side=side: getattr(outcome, f"bytes_{side}") / 1e6).mean  # type: ignore[misc]
        for side in ("up", "down")
    )
    accuracy = results.final(name, last=LAST)
    waited = results.spread(name, skipped).mean
    return f"{accuracy:.2f}", f"{up:.2f}", f"{down:.2f}", f"{waited:.1%}", str(len(results.of(name)))


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    ran = [place for place in PLACES if results.have(judging(place, "two_way"))]
    if not ran:
        return {}
    with draw.style():
        figure, (row,) = draw.sheet(len(ran), width=5.0, height=3.6)
        for axes, place in zip(row, ran, strict=True):
            curves = {
                method: judging(place, method)
                for method in (
                    "two_way",
                    *UNCOMPRESSED,
                    next(iter(PUBLISHED)),
                )  # as many as there are colours
                if results.have(judging(place, method))
            }
            draw.curves(axes, results, curves, draw.megabytes)
            axes.set_xscale("log")
            draw.titled(axes, place, "MB sent, both directions", "test accuracy, %", "lower right")
    return {"judging": figure}


_COMMON = (
    SettingRow("tuning tasks", OWN, "none of the pages': " + ", ".join(TUNING)),
    SettingRow("parameters tried", OWN, "one at a time around the base: " + "; ".join(list(VARIED)[1:])),
    SettingRow("seeds of the tuning tasks", OWN, "; ".join(f"{bed}: {n}" for bed, n in SEEDS.items())),
    SettingRow(
        "settings of the judged methods",
        OWN,
        "; ".join(
            f"{method}{' (both eps)' if len(tried.others) > 1 else ''}: {', '.join(map(str, tried.rates))}"
            for method, tried in EVERY.items()
        )
        + "; and beyond, while the best lies at an end",
    ),
    SettingRow(
        "two_way's server", OWN, "that of the best of all uncompressed runs of the grids of its split"
    ),
    SettingRow("two_way's uplink", OWN, "the better of: " + ", ".join(UPLINKS)),
    SettingRow(
        "seeds",
        OWN,
        "settings are chosen on 1000 to 1002 (iid) and 1000 to 1005 (two shards) of Fashion-MNIST, also for MNIST; "
        "those of the published ones on 1000 and 1001; two_way's uplink on 1000 to 1007; judged are 3000 and the next",
    ),
)

QUICK = (
    "**Procedure.** It was written into the code before the judged runs. Every uncompressed method is tuned "
    "on each split of Fashion-MNIST: 19 settings, on three seeds iid and on six with two shards, where single "
    "seeds move by two points. `two_way` has no grid of its own. It takes the server optimizer and rate of "
    "the best of all these uncompressed runs, AMSGrad at 0.01 iid and Adam with eps 1e-7 at 0.003 on two "
    "shards, and keeps its default codecs and memory; so it has no run more than its rivals. All are judged "
    "once, on five seeds that no page had shown. The best uncompressed method is the one with the highest "
    "mean over the judged seeds. Some choices lie at the end of a grid iid (FedAMS 0.3 and, with eps 1e-7, "
    "0.01; FedAdam 0.03); the next rates had been tried for a former version and were worse by 1.6 points or "
    "more. **What was looked at before.** That version judged the seeds 0 to 4, with two tuning seeds and "
    "without Adam for `two_way`: three places were within half a point, on Fashion-MNIST with two shards "
    "`two_way` was 1.18 points below FedAdam (-2.08 to -0.29), and level with it (+0.00, -0.16 to +0.17) with "
    "FedAdam's server. Taking the server from the uncompressed grids was decided after that look; the seeds "
    "that chose it and those that judge it are others. **Result.** Three of the four places meet the goal by "
    "its own criterion. Fashion-MNIST with two shards misses it: the mean is -0.49 points and the lower end "
    "-0.78. The same settings on the seeds 0 to 4 gave +0.00; the ten seeds together, which is no verdict "
    "since five of them had been seen, give -0.25 (-0.45 to -0.04). It was not judged again. **Defaults.** A "
    "variant becomes the default if it is ahead of the base by more than half a point on average over the "
    "tuning tasks, and behind by more than half a point on none; that was written down before the runs. b1 = "
    "0.5 is ahead on all four tasks, by 4.9 points on average, and is the new default; b1 = 0 is further "
    "ahead on two but 0.6 points behind on CIFAR-10 iid. Not all variants were run on all tasks: on "
    "Shakespeare momentum alone, with one seed. A smaller rate, Adam or Yogi at 0.003 are ahead by at most 2 "
    "points on the other tasks and would have to be ahead by 16 there to be chosen; these three differ among "
    "each other by less than the seeds do. EControl differs from error feedback by less than half a point on "
    "three tasks, EF21 likewise where it was run. Momentum before compression loses 10 points on CIFAR-10 iid "
    "and 2 on two shards; its weight 0.3 and the rate were not tuned. The tasks are short (15 to 60 rounds), "
    "which favours little momentum. The judged `two_way` has the whole server of an uncompressed run, b1 = "
    "0.9 included. **Laziness.** With so small a residual a client owes little more than its newest update: a "
    "threshold of 1 never skips, 1.5 skips every other upload, 1.2 nearly a third on digits, at no loss of "
    "half a point. It was chosen on another seed of digits, with the former b1. On the synthetic task the "
    "same threshold skips nearly half of the uploads and costs 0.8 points with all clients and 1.0 with half "
    "of them: a threshold that fits one task is not one for another. **Budget.** The command ran for about an "
    "hour and a quarter on a part of one shared core, grids included. The cells with a dense direction (the "
    "published methods that compress one way or none) were added when the first judged runs were known, "
    "concern other claims, and were not run. **What was not tried.** Bits that change over a run; "
    "combinations of the variants; the small CNN on CIFAR-10, which is in the full edition."
)

EXPERIMENT = Reproduction(
    name="two-way-defaults",
    title="The defaults of two_way",
    source="our own study; no paper",
    summary="Which codec, momentum, rate, memory and threshold two_way should have, found on tasks that no page "
    "shows, and what the choice is worth on those that the pages show.",
    procedure=Procedure(cells, findings, tables, pictures, grids),
    notes={"quick": QUICK},
    settings={
        "quick": (
            SettingRow(
                "scale",
                OWN,
                "20 or 30 clients, 10 in a round, 40 or 60 rounds; lazy uplinks also with half or all, 120 on digits",
            ),
            *_COMMON,
        ),
        "full": (
            SettingRow(
                "scale", OWN, "tuning as in quick and on CIFAR-10; judging with 100 clients, 50 in a round"
            ),
            *_COMMON,
        ),
    },
)
