"""The defaults of two_way: chosen on tasks of their own, then judged on those of the pages.

*Tuning* varies one parameter of `two_way` at a time around `BASE`, on data that no page shows. *Judging* runs the
defaults and the best uncompressed method on Fashion-MNIST and MNIST, each at the best of its server rates; rates are
chosen on splits and seeds that are not among the judged ones.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.compute import Task
from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell, NamedTask, TaskMaker
from fedpace.reproduce.experiment import (
    OWN,
    Finding,
    Procedure,
    Reproduction,
    SettingRow,
    Table,
    judged,
    not_run,
)
from fedpace.reproduce.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Settings = Mapping[str, Any]
APART = 1000  # between the seeds that rates are chosen with and those that are judged
LAST = 3  # evaluations whose mean is a run's accuracy
MARGIN, SHARE, SKIPPED = 0.5, 20, 0.2  # points, of the bytes, of the uploads
STUDENT = {2: 6.314, 3: 2.920, 4: 2.353, 5: 2.132, 6: 2.015, 8: 1.895, 10: 1.833}  # one-sided 95 %, by runs


@dataclass(frozen=True, slots=True)
class TaskBed:
    """A task with its length and local work."""

    task: NamedTask
    rounds: int
    work: Mapping[str, Any]


def _work(client_lr: float, steps: int, batch_size: int, clients_per_round: int) -> dict[str, Any]:
    return locals()


TUNING = {
    "synthetic": TaskBed(NamedTask("synthetic", "natural", "mlp:64", 30), 60, _work(0.05, 20, 10, 10)),
    "Shakespeare": TaskBed(NamedTask("shakespeare", "natural", "gru:32", 20), 40, _work(1.0, 10, 10, 10)),
}
SMALL_PICTURES = TaskBed(NamedTask("cifar10", "dirichlet:0.5", "cnn_ca2fl", 20), 60, _work(0.05, 20, 32, 10))
PLACES = {
    f"{name}, {split}": TaskBed(NamedTask(data, partition, "mlp:64", 20), 60, _work(0.05, 20, 32, 10))
    for name, data in (("Fashion-MNIST", "fashion-mnist"), ("MNIST", "mnist"))
    for split, partition in (("iid", "iid"), ("two shards", "shards:2"))
}

BASE: Settings = {
    "codec": "octaves:1/4",
    "down_codec": "ternary:1/2",
    "per_tensor": True,
    "b1": 0.9,
    "server_lr": 0.005,
    "eps": 1e-7,
    "memory": "ef",
    "tau": 0.0,
}
VARIED: Mapping[str, Settings] = {
    "base": {},
    "server_lr 0.003": {"server_lr": 0.003},
    "server_lr 0.01": {"server_lr": 0.01},
    "b1 0": {"b1": 0.0},
    "b1 0.5": {"b1": 0.5},
    "eps 1e-3, server_lr 0.1": {"eps": 1e-3, "server_lr": 0.1},
    "eps 1e-3, server_lr 0.3": {"eps": 1e-3, "server_lr": 0.3},
    "eps 1e-5": {"eps": 1e-5},
    "eps 1e-9": {"eps": 1e-9},
    "top-k 1/24 both ways": {"codec": "topk:1/24", "down_codec": "topk:1/24"},
    "top-k 1/64 both ways": {"codec": "topk:1/64", "down_codec": "topk:1/64"},
    "sign both ways": {"codec": "sign", "down_codec": "sign"},
    "ternary 1/4 both ways": {"codec": "ternary:1/4", "down_codec": "ternary:1/4"},
    "octaves 1/8 both ways": {"codec": "octaves:1/8", "down_codec": "octaves:1/8"},
    "sign down": {"down_codec": "sign"},
    "octaves 1/4 down": {"down_codec": "octaves:1/4"},
    "top-k 1/24 down": {"down_codec": "topk:1/24"},
    "flat": {"per_tensor": False},
    "EF21": {"memory": "ef21"},
    "lazy 1.1": {"tau": 1.1},
    "lazy 1.3": {"tau": 1.3},
    "lazy 1.5": {"tau": 1.5},
    "lazy EF21 0.5": {"memory": "ef21", "tau": 0.5},
}
LAZY = tuple(name for name in VARIED if name.startswith("lazy"))
ADAPTIVE = "FedAMS, eps 1e-7"
BASELINES = {"FedAvg": (1.0,), "FedAMS": (0.03, 0.1, 0.3), ADAPTIVE: (0.003, 0.01, 0.03)}
RATES = {
    "two_way": (0.005, 0.01),
    ADAPTIVE: (0.003, 0.01),
    "FedAMS": (0.1, 0.3),
    "FedBNLACA 1/24": (0.03, 0.1),
}
UNCOMPRESSED = ("FedAMS", ADAPTIVE)
FULL_SIZE = {"quick": 1, "full": 5}  # times the clients, and times those of a round


# ---------------------------------------------------------------- cells


@dataclass(frozen=True, slots=True)
class OtherSplit:
    """The same task split by other seeds."""

    task: NamedTask

    def __call__(self, seed: int) -> Task:
        return self.task(seed + APART)


def cells(edition: str, known: Results) -> list[Cell]:
    """All of the tuning; rates on other splits; then whatever has a rate."""
    every = [cell for bed in beds(edition) for cell in _tuning(edition, bed)]
    for place in PLACES:
        every += [_rate_cell(edition, place, method, rate) for method in RATES for rate in RATES[method]]
        for method in RATES:
            rate = chosen_rate(known, place, method)
            if rate is not None:
                every.append(
                    _cell(
                        judging(place, method), _method(edition, place, method, rate), PLACES[place], edition
                    )
                )
    return every


def beds(edition: str) -> dict[str, TaskBed]:
    return TUNING | ({"CIFAR-10": SMALL_PICTURES} if edition == "full" else {})


def _tuning(edition: str, name: str) -> list[Cell]:
    bed = beds(edition)[name]
    baselines = {
        f"{method} {rate:g}": _uncompressed(method, rate, bed.work)
        for method, rates in BASELINES.items()
        for rate in rates
    }
    ours = {label: algorithms.two_way(**{**BASE, **varied, **bed.work}) for label, varied in VARIED.items()}
    return [_cell(tuning(name, label), made, bed, "quick") for label, made in (baselines | ours).items()]


def _rate_cell(edition: str, place: str, method: str, rate: float) -> Cell:
    made = _cell(
        f"rate {place}: {method} {rate:g}", _method(edition, place, method, rate), PLACES[place], edition
    )
    return replace(made, task=OtherSplit(made.task), seeds=1)  # type: ignore[arg-type]


def _method(edition: str, place: str, method: str, rate: float) -> Algorithm:
    work = _scaled(PLACES[place].work, edition)
    if method == "two_way":
        return algorithms.two_way(**{**BASE, **work, "server_lr": rate})
    if method == "FedBNLACA 1/24":
        top = "topk:1/24"
        return algorithms.fedbnlaca(server_lr=rate, codec=top, down_codec=top, tau=0.8, **work)
    return _uncompressed(method, rate, work)


def _uncompressed(method: str, rate: float, work: Settings) -> Algorithm:
    if method == "FedAvg":
        return algorithms.fedavg(server_lr=rate, **work)
    return algorithms.fedams(server_lr=rate, eps=1e-7 if method == ADAPTIVE else 1e-3, **work)


def _scaled(work: Settings, edition: str) -> dict[str, Any]:
    return {**work, "clients_per_round": FULL_SIZE[edition] * work["clients_per_round"]}


def _cell(name: str, algorithm: Algorithm, bed: TaskBed, edition: str) -> Cell:
    task: TaskMaker = replace(bed.task, clients=FULL_SIZE[edition] * bed.task.clients)
    return Cell(name=name, algorithm=algorithm, task=task, rounds=bed.rounds, evaluate_every=4)


def tuning(bed: str, label: str) -> str:
    return f"tuning {bed}: {label}"


def judging(place: str, method: str) -> str:
    return f"judging {place}: {method}"


def chosen_rate(known: Results, place: str, method: str) -> float | None:
    """The best on the first seed of other splits, once all of them are known."""
    names = {rate: f"rate {place}: {method} {rate:g}" for rate in RATES[method]}
    if not known.have(*names.values()):
        return None
    return max(names, key=lambda rate: known.of(names[rate])[0].final("accuracy", LAST))


# ---------------------------------------------------------------- findings


@dataclass(frozen=True, slots=True)
class Paired:
    """The differences of two methods, seed by seed, in points of accuracy."""

    differences: tuple[float, ...]

    @classmethod
    def of(cls, results: Results, ours: str, theirs: str) -> Paired:
        runs = results.outcomes.get(ours, {}), results.outcomes.get(theirs, {})
        both = sorted(runs[0].keys() & runs[1].keys())
        return cls(
            tuple(
                100 * (runs[0][seed].final("accuracy", LAST) - runs[1][seed].final("accuracy", LAST))
                for seed in both
            )
        )

    @property
    def mean(self) -> float:
        return statistics.fmean(self.differences)

    @property
    def lower(self) -> float:
        """The lower end of the 90 % interval; of one run there is none."""
        n = len(self.differences)
        if n < 2:
            return -math.inf
        quantile = STUDENT.get(n, STUDENT[max(size for size in STUDENT if size <= n)])
        return self.mean - quantile * statistics.stdev(self.differences) / math.sqrt(n)


def findings(edition: str, results: Results) -> list[Finding]:
    return [
        *(_goal(results, place) for place in PLACES),
        *(_published(results, place) for place in PLACES),
        *(_lazy(results, bed) for bed in TUNING),
    ]


def _goal(results: Results, place: str) -> Finding:
    claim = (
        f"a {SHARE}th of the bytes each way, within {MARGIN} points of the best uncompressed method ({place})"
    )
    names = {method: judging(place, method) for method in ("two_way", *UNCOMPRESSED)}
    if not results.have(*names.values()):
        return not_run(claim, OWN)
    best = max(UNCOMPRESSED, key=lambda method: results.final(names[method], last=LAST).mean)
    gap = Paired.of(results, names["two_way"], names[best])
    up, down = (_ratio(results, names[best], names["two_way"], side) for side in ("up", "down"))
    text = (
        f"{gap.mean:+.2f} points against {best}, lower end {gap.lower:+.2f} ({len(gap.differences)} seeds); "
        f"{up:.1f} and {down:.1f} times fewer bytes up and down"
    )
    return Finding(claim, OWN, text, judged(min(up, down) >= SHARE and gap.lower > -MARGIN))


def _published(results: Results, place: str) -> Finding:
    claim = f"at equal bytes ahead of the published two-way method ({place})"
    ours, theirs = judging(place, "two_way"), judging(place, "FedBNLACA 1/24")
    if not results.have(ours, theirs):
        return not_run(claim, OWN)
    gap = Paired.of(results, ours, theirs)
    up, down = (_ratio(results, theirs, ours, side) for side in ("up", "down"))
    text = (
        f"{gap.mean:+.2f} points, lower end {gap.lower:+.2f}, with {up:.2f} and {down:.2f} times fewer bytes"
    )
    return Finding(claim, OWN, text, judged(min(up, down) >= 1 and gap.lower > 0))


def _lazy(results: Results, bed: str) -> Finding:
    claim = f"a lazy uplink skips {SKIPPED:.0%} at no more than {MARGIN} points ({bed})"
    base = tuning(bed, "base")
    ran = [label for label in LAZY if results.have(tuning(bed, label), base)]
    if not ran:
        return not_run(claim, OWN)
    gaps = {label: Paired.of(results, tuning(bed, label), base).mean for label in ran}
    fired = {label: results.spread(tuning(bed, label), _skipped).mean for label in ran}
    text = "; ".join(f"{label}: {fired[label]:.0%} skipped, {gaps[label]:+.2f} points" for label in ran)
    return Finding(claim, OWN, text, judged(any(fired[x] >= SKIPPED and gaps[x] >= -MARGIN for x in ran)))


def _skipped(outcome: Any) -> float:
    return float(outcome.traffic["up"]["firing_rate"])


def _ratio(results: Results, larger: str, smaller: str, side: str) -> float:
    sums = [
        results.spread(name, lambda outcome: float(getattr(outcome, f"bytes_{side}"))).mean
        for name in (larger, smaller)
    ]
    return sums[0] / sums[1]


# ---------------------------------------------------------------- the page


def tables(edition: str, results: Results) -> list[Table]:
    found = [_table(results, f"Tuning: {bed}", _tuned(edition, bed), tuning, bed) for bed in beds(edition)]
    found += [_table(results, f"Judging: {place}", list(RATES), judging, place) for place in PLACES]
    return [table for table in found if table.rows]


def _tuned(edition: str, bed: str) -> list[str]:
    return [cell.name.removeprefix(tuning(bed, "")) for cell in _tuning(edition, bed)]


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
    skipped = results.spread(name, _skipped).mean
    return f"{accuracy:.2f}", f"{up:.2f}", f"{down:.2f}", f"{skipped:.1%}", str(len(results.of(name)))


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    ran = [place for place in PLACES if results.have(judging(place, "two_way"))]
    if not ran:
        return {}
    with draw.style():
        figure, (row,) = draw.sheet(len(ran), width=5.0, height=3.6)
        for axes, place in zip(row, ran, strict=True):
            curves = {
                method: judging(place, method) for method in RATES if results.have(judging(place, method))
            }
            draw.curves(axes, results, curves, draw.megabytes)
            axes.set_xscale("log")
            draw.titled(axes, place, "MB sent, both directions", "test accuracy, %", "lower right")
    return {"judging": figure}


_COMMON = (
    SettingRow("tuning tasks", OWN, "none of the pages': " + ", ".join(TUNING)),
    SettingRow("parameters tried", OWN, "one at a time around the base: " + "; ".join(list(VARIED)[1:])),
    SettingRow("rates of the judged methods", OWN, "; ".join(f"{m}: {r}" for m, r in RATES.items())),
    SettingRow("seeds", OWN, "rates are chosen on one other split; the judged seeds are not among them"),
)

EXPERIMENT = Reproduction(
    name="two-way-defaults",
    title="The defaults of two_way",
    source="our own study; no paper",
    summary="Which codec, momentum, rate, memory and threshold two_way should have, found on tasks that no page "
    "shows, and what the choice is worth on those that the pages show.",
    procedure=Procedure(cells, findings, tables, pictures),
    settings={
        "quick": (SettingRow("scale", OWN, "20 or 30 clients, 10 in a round, 40 or 60 rounds"), *_COMMON),
        "full": (
            SettingRow(
                "scale", OWN, "tuning as in quick and on CIFAR-10; judging with 100 clients, 50 in a round"
            ),
            *_COMMON,
        ),
    },
)
