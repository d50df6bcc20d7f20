"""Aggregation under attack: accuracy against the share of hostile clients, for every rule and attack."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fedpace import algorithms
from fedpace.aggregate import (
    Bucketed,
    CenteredClip,
    GeometricMedian,
    Krum,
    Mean,
    Median,
    NormBound,
    TrimmedMean,
)
from fedpace.algorithm import Algorithm
from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell, NamedTask
from fedpace.reproduce.comparison import Comparison, above, final_accuracy, no_worse
from fedpace.reproduce.experiment import (
    OWN,
    Finding,
    Procedure,
    Table,
    compared,
    not_run,
    reproduction,
)
from fedpace.reproduce.results import Results
from fedpace.sim import Hostile, Population

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLIENTS = 20
BUFFER = 10
SHARES = {"quick": (0.1, 0.2, 0.3, 0.4), "full": (0.2, 0.4)}
DATA = {"quick": ("digits", "mlp:32"), "full": ("fashion-mnist", "mlp")}
ROUNDS = {"quick": 40, "full": 60}
SPLITS = ("iid", "dirichlet:0.3")
PACES = ("synchronous", "buffered")
WORK: dict[str, Any] = {"client_lr": 0.1, "epochs": 2, "batch_size": 10}

ATTACKS: Mapping[str, float | None] = {
    "sign_flip": 4.0,
    "noise": 50.0,
    "scale": 100.0,
    "label_flip": None,
    "alie": None,
    "ipm": 4.0,
    "free_rider": 0.0,
    "false_fields": 1000.0,
}  # and their strengths; None: the attack's own
MEAN = "mean"
KEPT = 5.0  # points below the mean without attackers that still count as survived


def rules(updates: int) -> dict[str, Any]:
    """Every rule, for steps of that many updates; Krum expects as many liars as it can stand."""
    liars = (updates - 3) // 2
    return {
        MEAN: Mean(),
        "median": Median(),
        "trimmed mean 0.2": TrimmedMean(0.2),
        "trimmed mean 0.4": TrimmedMean(0.4),
        "geometric median": GeometricMedian(),
        "Krum": Krum(liars),
        "multi-Krum": Krum(liars, keep=updates // 2),
        "centred clipping": CenteredClip(0.3, iterations=5),
        "norm bound": NormBound(0.5),
        "median of pairs": Bucketed(2, Median()),
    }


BREAKDOWN = {
    MEAN: 0.0,
    "median": 0.5,
    "trimmed mean 0.2": 0.2,
    "trimmed mean 0.4": 0.4,
    "geometric median": 0.5,
    "Krum": 0.4,
    "multi-Krum": 0.4,
    "norm bound": 0.0,
    "median of pairs": 0.25,
}  # published: the share of hostile updates that the rule survives, for honest updates that are alike


def _algorithm(pace: str, rule: str) -> Algorithm:
    if pace == "synchronous":
        return replace(algorithms.fedavg(**WORK), aggregate=rules(CLIENTS)[rule], name=rule)
    plain = algorithms.fedbuff(buffer=BUFFER, concurrency=CLIENTS, server_lr=1.0, **WORK)
    return replace(plain, aggregate=rules(BUFFER)[rule], name=rule)


def _name(split: str, pace: str, rule: str, attack: str = "", share: float = 0.0) -> str:
    return f"{split} {pace} {rule}" + (f" {attack} {share:g}" if attack else " honest")


def _cell(edition: str, split: str, pace: str, rule: str, attack: str = "", share: float = 0.0) -> Cell:
    data, model = DATA[edition]
    hostile = Hostile(share, attack, ATTACKS[attack]) if attack else None
    devices = Population(1.0) if pace == "synchronous" else Population.half_normal(2.0, 1.0)
    rounds = ROUNDS[edition] * (1 if pace == "synchronous" else CLIENTS // BUFFER)
    return Cell(
        name=_name(split, pace, rule, attack, share),
        algorithm=_algorithm(pace, rule),
        task=NamedTask(data, split, model, CLIENTS),
        rounds=rounds,
        population=replace(devices, hostile=hostile),
        evaluate_every=rounds // 4,
    )


def cells(edition: str, known: Results) -> list[Cell]:
    """Everything on digits; on the larger data set two shares."""
    return [
        cell
        for split, pace in _columns()
        for rule in rules(CLIENTS)
        for cell in (
            _cell(edition, split, pace, rule),
            *(
                _cell(edition, split, pace, rule, attack, share)
                for attack in ATTACKS
                for share in SHARES[edition]
            ),
        )
    ]


def _columns() -> Iterator[tuple[str, str]]:
    return ((split, pace) for split in SPLITS for pace in PACES)


# ------------------------------------------------------------------------------------------- judgement


def findings(edition: str, results: Results) -> list[Finding]:
    return [
        *(_survives(edition, results, split, pace) for split, pace in _columns()),
        *(_mean_is_beaten(edition, results, split, pace) for split, pace in _columns()),
        _fails_past_its_point(edition, results),
        _buckets_help(edition, results),
    ]


def _worst(results: Results, split: str, pace: str, rule: str, share: float) -> tuple[float, str] | None:
    """The lowest mean accuracy over attacks, and which attack it was; None while some are missing."""
    names = {attack: _name(split, pace, rule, attack, share) for attack in ATTACKS}
    if not results.have(*names.values()):
        return None
    return min((results.final(name).mean, attack) for attack, name in names.items())


def _reference(results: Results, split: str, pace: str) -> float:
    return results.final(_name(split, pace, MEAN)).mean


def _largest_survived(edition: str, results: Results, split: str, pace: str, rule: str) -> float | None:
    """The largest share up to which no attack costs more than KEPT points."""
    survived = 0.0
    for share in SHARES[edition]:
        worst = _worst(results, split, pace, rule, share)
        if worst is None:
            return None
        if worst[0] < _reference(results, split, pace) - KEPT:
            return survived
        survived = share
    return survived


def _survives(edition: str, results: Results, split: str, pace: str) -> Finding:
    claim = f"{split}, {pace}: every rule survives all attacks by fewer clients than its breakdown point"
    published = "; ".join(f"{rule} {point:g}" for rule, point in BREAKDOWN.items() if point)
    found = {rule: _largest_survived(edition, results, split, pace, rule) for rule in BREAKDOWN}
    if any(share is None for share in found.values()):
        return not_run(claim, published)
    expected = {
        rule: max((share for share in SHARES[edition] if share < point), default=0.0)
        for rule, point in BREAKDOWN.items()
    }
    ours = "; ".join(f"{rule} {found[rule]:g}" for rule, point in BREAKDOWN.items() if point)
    short = [rule for rule in BREAKDOWN if (found[rule] or 0.0) < expected[rule]]
    note = f"survived: within {KEPT:g} points of the mean without attackers." + (
        f" Fell short: {', '.join(short)}; breakdown points are about unbounded harm, not about accuracy."
        if short
        else ""
    )
    kept = tuple(
        no_worse(
            results,
            _name(split, pace, rule, attack, share),
            _name(split, pace, MEAN),
            final_accuracy(1),
            KEPT,
        )
        for rule, most in expected.items()
        for share in SHARES[edition]
        if share <= most
        for attack in ATTACKS
    )
    return Finding(claim, published, ours, note=note, comparisons=kept, family=f"{split}, {pace}")


def _mean_is_beaten(edition: str, results: Results, split: str, pace: str) -> Finding:
    claim = f"{split}, {pace}: the plain mean is beaten by at least one attack at every share"
    published = "breakdown point 0"
    worst = {share: _worst(results, split, pace, MEAN, share) for share in SHARES[edition]}
    if not results.have(_name(split, pace, MEAN)) or None in worst.values():
        return not_run(claim, published)
    honest = _reference(results, split, pace)
    lows = {share: low for share, low in worst.items() if low is not None}
    ours = "; ".join(f"share {share:g}: {value:.1f} ({attack})" for share, (value, attack) in lows.items())
    reference = _name(split, pace, MEAN)
    beaten = tuple(
        _below(results, _name(split, pace, MEAN, attack, share), reference)
        for share, (_, attack) in lows.items()
    )
    text = f"{ours}; without attackers {honest:.1f}"
    return Finding(claim, published, text, comparisons=beaten, family=f"{split}, {pace}")


def _below(results: Results, attacked: str, reference: str) -> Comparison:
    """An attack costs more than KEPT points."""
    plain = above(results, reference, attacked, final_accuracy(1))
    allowed = tuple(value + KEPT for value in plain.smaller)
    return Comparison(f"{reference} above {attacked} by {KEPT:g}", plain.seeds, plain.larger, allowed)


def _fails_past_its_point(edition: str, results: Results) -> Finding:
    claim = "a trimmed mean that cuts a fifth at each end fails visibly when more than a fifth scale their updates"
    published = "breakdown point = trim"
    share = max(SHARES[edition])
    past = _name("iid", "synchronous", "trimmed mean 0.2", "scale", share)
    below = _name("iid", "synchronous", "trimmed mean 0.2", "scale", min(SHARES[edition]))
    if not results.have(past, below):
        return not_run(claim, published)
    over, under = results.final(past), results.final(below)
    text = f"share {share:g}: {over:.1f}; {min(SHARES[edition]):g}: {under:.1f}"
    return Finding(claim, published, text, comparisons=(_below(results, past, below),), family="breakdown")


def _buckets_help(edition: str, results: Results) -> Finding:
    claim = "on skewed data buckets of two are ahead of the plain median (mean over attacks, a tenth or fifth hostile)"
    published = (
        OWN if edition == "full" else "Karimireddy et al. 2022: bucketing removes the price of skewed data"
    )
    share = min(SHARES[edition])
    pairs = {
        rule: [_name("dirichlet:0.3", "synchronous", rule, attack, share) for attack in ATTACKS]
        for rule in ("median", "median of pairs")
    }
    if not results.have(*pairs["median"], *pairs["median of pairs"]):
        return not_run(claim, published)
    means = {
        rule: math.fsum(results.final(name).mean for name in names) / len(names)
        for rule, names in pairs.items()
    }
    ours = "; ".join(f"{rule} {value:.1f}" for rule, value in means.items())
    return Finding(claim, published, ours, comparisons=(_mean_ahead(results, pairs),), family="buckets")


def _mean_ahead(results: Results, cells: Mapping[str, Sequence[str]]) -> Comparison:
    """Mean over attacks, seed by seed, with and without buckets."""
    pairs = [
        above(results, bucketed, plain, final_accuracy(1))
        for bucketed, plain in zip(cells["median of pairs"], cells["median"], strict=True)
    ]
    seeds = tuple(sorted(set.intersection(*(set(pair.seeds) for pair in pairs))))

    def mean(side: str, seed: int) -> float:
        values = [getattr(pair, side)[pair.seeds.index(seed)] for pair in pairs]
        return math.fsum(values) / len(values)

    with_buckets, without = (tuple(mean(side, seed) for seed in seeds) for side in ("larger", "smaller"))
    return Comparison("buckets above none", seeds, with_buckets, without)


# ----------------------------------------------------------------------------------- tables, pictures


def tables(edition: str, results: Results) -> list[Table]:
    return [
        *(
            _accuracies(edition, results, split, pace, share)
            for split, pace in _columns()
            for share in SHARES[edition]
        ),
        _breakdowns(edition, results),
    ]


def _accuracies(edition: str, results: Results, split: str, pace: str, share: float) -> Table:
    rows = [
        (
            rule,
            f"{results.final(_name(split, pace, rule)):.1f}",
            *(f"{results.final(_name(split, pace, rule, attack, share)):.1f}" for attack in ATTACKS),
        )
        for rule in rules(CLIENTS)
    ]
    title = f"{split}, {pace}, {share:.0%} hostile: test accuracy %"
    return Table(title, ("", "no attack", *ATTACKS), rows)


def _breakdowns(edition: str, results: Results) -> Table:
    rows = []
    for rule in rules(CLIENTS):
        found = [_largest_survived(edition, results, split, pace, rule) for split, pace in _columns()]
        published = f"{BREAKDOWN[rule]:g}" if rule in BREAKDOWN else "depends on the spread"
        rows.append((rule, published, *("" if share is None else f"{share:g}" for share in found)))
    header = ("", "published breakdown point", *(f"{split}, {pace}" for split, pace in _columns()))
    return Table(f"Largest share survived (within {KEPT:g} points under every attack)", header, rows)


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    shown = {f"{pace}.png": _sheet(edition, results, pace) for pace in PACES}
    return {name: figure for name, figure in shown.items() if figure is not None}


def _sheet(edition: str, results: Results, pace: str) -> Figure | None:
    """Accuracy against the share of hostile clients: a row per split, a column per attack, a line per rule."""
    if not results.have(*(_name(split, pace, MEAN) for split in SPLITS)):
        return None
    with draw.style():
        figure, axes = draw.sheet(len(ATTACKS), len(SPLITS), width=2.1, height=2.2, sharex=True, sharey=True)
        for across, attack in enumerate(ATTACKS):
            for down, split in enumerate(SPLITS):
                _lines(axes[down][across], edition, results, split, pace, attack)
                left = f"{split}\ntest accuracy %" if across == 0 else ""
                draw.titled(
                    axes[down][across], attack if down == 0 else "", "share hostile" if down else "", left
                )
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8)
    return figure


def _lines(axes: Any, edition: str, results: Results, split: str, pace: str, attack: str) -> None:
    shares = (0.0, *SHARES[edition])
    for at, rule in enumerate(rules(CLIENTS)):
        names = [_name(split, pace, rule, attack if share else "", share) for share in shares]
        if results.have(*names):
            heights = [results.final(name).mean for name in names]
            dashes: Sequence[int] | str = "-" if at < 8 else "--"
            axes.plot(shares, heights, color=draw.colour(at), label=rule, linestyle=dashes)
    axes.set_ylim(0, 100)
    axes.set_xticks(shares[::2] if len(shares) > 3 else shares)


EXPERIMENT = reproduction(
    "robustness",
    """
    Aggregation under attack

    our own study of published rules: Yin et al. 2018, Blanchard et al. 2017, Pillutla et al. 2022, Karimireddy et al.
    2021 and 2022, Sun et al. 2019

    Some clients lie. Ten aggregation rules against eight attacks by a tenth to four tenths of the clients, iid and
    skewed data, synchronous and buffered.
    """,
    Procedure(cells, findings, tables, pictures),
    {
        "quick": compared(
            """
            data | gradients of MNIST, CIFAR-10 and others | digits, mlp:32, 20 clients, iid and Dirichlet 0.3
            local work | one gradient | 2 epochs of SGD, rate 0.1, batch 10
            pacing | synchronous | 40 rounds of all clients; 80 steps of buffers of 10, devices 1 s + half-normal
            rules | one each | mean, median, trimmed mean, geometric median, Krum, multi-Krum, centred clipping,
                norm bound, median of pairs
            """
        ),
        "full": compared(
            """
            data | gradients of MNIST, CIFAR-10 and others | Fashion-MNIST, mlp, 20 clients, iid and Dirichlet 0.3
            local work | one gradient | 2 epochs of SGD, rate 0.1, batch 10
            pacing | synchronous | 60 rounds of all clients; 120 steps of buffers of 10, devices 1 s + half-normal
            rules | one each | as in the quick edition, shares 0.2 and 0.4
            """
        ),
    },
    {
        "quick": "`false_fields` claims a thousand times the samples: rules that count every update the same believe "
        "no such claim. `free_rider` sends the model back: its harm is that of fewer honest updates.",
        "full": "",
    },
)
