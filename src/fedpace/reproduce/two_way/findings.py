"""What the two-way experiment is to show, claim by claim.

The paper plots accuracy against bits, so its claims are judged at equal bytes: at the budget of the method that the
claim is about, a rival has what it had learned when it had sent as much.
"""

from __future__ import annotations

from dataclasses import replace

from fedpace.reproduce.comparison import Comparison, above, cheaper, final_accuracy, no_worse, times
from fedpace.reproduce.experiment import OWN, ClaimSource, Finding, not_run, not_tested
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results, SeedSpread
from fedpace.reproduce.two_way import cnn
from fedpace.reproduce.two_way.budgets import (
    COSTS,
    TARGETS,
    at_budget,
    at_equal_seconds,
    budget_of,
    by_bytes,
    fired,
    how_often,
    megabytes,
    rarely_fired,
    rivals_at,
    to_target,
)
from fedpace.reproduce.two_way.cells import (
    BASELINES,
    LAST,
    PLACES,
    SCALES,
    SUGGESTED,
    TAU_EF21,
    TAU_NLA,
    DataSplit,
    name_of,
    where,
)
from fedpace.reproduce.two_way.tuned import EVERYWHERE, FIGURES, missing, ran

POINT = 1.0  # of accuracy: the margin of the claims that say "within a point"
SHOWN = tuple(place for place in PLACES if place.data == "Fashion-MNIST")
# of the MLP's figures the paper has captions only
NLA, AA = "said of Figures 1, 3 (CNN)", "said of Figures 2, 4 (CNN)"
SAID = {"FedNLAA": NLA, "FedACA 1/8": AA, "FedBACA 1/8": AA}


def findings(edition: str, results: Results) -> list[Finding]:
    published = [
        *(
            finding
            for method, figures in SAID.items()
            for place in EVERYWHERE
            for finding in by_bytes(results, place, method, figures)
        ),
        *(finding for place in SHOWN for finding in to_target(results, place, "FedBACA 1/8", AA)),
        *(_agreeing(results, place) for place in EVERYWHERE if place.split != "iid"),
        *(_especially(results, place) for place in EVERYWHERE),
    ]
    clients = SCALES[edition].work["clients_per_round"]
    timed = [at_equal_seconds(results, place, "FedBACA 1/8", clients) for place in SHOWN]
    checks = (_fewest, _aa, _threshold, _fedcams, _both_ways, _literal, _lazy, _tiny)
    own = [check(results, place) for check in checks for place in SHOWN]
    return [*published, *own, *timed, *(_with_a_cnn(results) if edition == "quick" else [_no_cnn()])]


def _with_a_cnn(results: Results) -> list[Finding]:
    """The figures that the text is about."""
    return [
        *(
            finding
            for split, place in cnn.PLACES.items()
            for method in cnn.judged(split)
            for finding in by_bytes(results, place, method, SAID[method])
        ),
        _especially(results, cnn.PLACES["non-iid"]),
        not_run(
            "the same with a CNN on MNIST, and with all clients (Figures 13-16, 18, 20)",
            "captions only",
            "another hour for each.",
        ),
    ]


def _no_cnn() -> Finding:
    why = "a CNN takes hours; the quick edition has a small one."
    return not_run("the same with a CNN (Figures 1-4, 13-20)", "said of Figures 1-4", why)


def accuracy(results: Results, place: DataSplit, method: str) -> SeedSpread:
    return results.final(name_of(place, method), last=LAST)


def firing(results: Results, place: DataSplit, method: str) -> float:
    return results.spread(name_of(place, method), fired).mean


def _missing(results: Results, place: DataSplit, *methods: str) -> bool:
    return not results.have(*(name_of(place, method) for method in methods))


def _agreeing(results: Results, place: DataSplit) -> Finding:
    """Both send as much: what AA itself is worth."""
    claim = f"FedACA 1/8 is more accurate than FedCAMS 1/8, at the same bytes ({where(place)})"
    published = "FedCAMS is among the methods compared; the text says it of three that are not named"
    methods = ("FedACA 1/8", "FedCAMS 1/8")
    if missing(results, place, *methods):
        return not_run(claim, published)
    names = ran(results, place, *methods)
    text = ", ".join(_end(results, method, name) for method, name in names.items())
    rule, plain = names.values()
    if rarely_fired(results, rule):
        return not_tested(claim, published, text, f"{how_often(results, rule)}.")
    better = (above(results, rule, plain, final_accuracy(LAST)),)
    note = f"{how_often(results, rule)}."
    return Finding(claim, published, text, note=note, comparisons=better, family=FIGURES[place])


def _especially(results: Results, place: DataSplit) -> Finding:
    claim = f"FedBACA 1/8 is more accurate than FedACA 1/8 at equal bytes both ways ({where(place)})"
    published = f"{AA}: FedACA and FedBACA, especially FedBACA"
    methods = ("FedBACA 1/8", "FedACA 1/8")
    if missing(results, place, *methods):
        return not_run(claim, published)
    both = ran(results, place, *methods)["FedBACA 1/8"]
    budget = budget_of(results, both, COSTS["both ways"])
    measure = at_budget(budget, COSTS["both ways"])
    rivals = rivals_at(results, place, "FedBACA 1/8", budget, COSTS["both ways"], ["FedACA 1/8"])
    names = {"FedBACA 1/8": both, **rivals.names}
    one = names["FedACA 1/8"]
    ends = ", ".join(f"{m} {results.spread(name, measure):.1f} %" for m, name in names.items())
    text = f"after {budget / 1e6:.1f} MB both ways{rivals}: {ends}"
    often = f"FedBACA: {how_often(results, both)}; FedACA: {how_often(results, one)}"
    if any(rarely_fired(results, name) for name in names.values()):
        return not_tested(claim, published, text, f"{often}: in less than 1 % with at least one of them.")
    better = (above(results, both, one, measure),)
    note = f"{often}."
    return Finding(claim, published, text, note=note, comparisons=better, family=FIGURES[place])


def _fewest(results: Results, place: DataSplit) -> Finding:
    target = TARGETS[place.split]
    claim = (
        f"FedNLACA and FedBNLACA need few bits to {target:.0%}, FedBNLACA fewest; not tuned ({where(place)})"
    )
    methods = ("FedNLAA", "FedNLACA 1/8", "FedBNLACA 1/8")
    if _missing(results, place, *methods):
        return not_run(claim, NLA)
    names = [name_of(place, method) for method in methods]
    spent = [results.to_target(name, target, megabytes(COSTS["both ways"])) for name in names]
    text = ", ".join(
        f"{m} {v:.1f} MB (NLA fired in {firing(results, place, m):.1%})"
        for m, v in zip(methods, spent, strict=True)
    )
    if all(rarely_fired(results, name) for name in names[1:]):
        return not_tested(
            claim,
            NLA,
            text,
            "NLA fired in less than 1 % of FedNLACA's and FedBNLACA's uploads: what saves is compression.",
        )
    pairs = zip(names[1:], names, strict=False)
    fewer = tuple(cheaper(results, less, more, target, COSTS["both ways"]) for less, more in pairs)
    return Finding(claim, NLA, text, comparisons=fewer, family=FIGURES[place])


def _megabytes(outcome: Outcome) -> float:
    return (outcome.bytes_up + outcome.bytes_down) / 1e6


def _aa(results: Results, place: DataSplit) -> Finding:
    claim = f"FedAA converges faster than FedAvg, FedAdam and FedAMS ({where(place)})"
    if missing(results, place, "FedAA", *BASELINES):
        return not_run(claim, AA)
    names = ran(results, place, "FedAA", *BASELINES)
    early = {m: results.spread(name, _first_half) for m, name in names.items()}
    often = how_often(results, names["FedAA"])
    text = ", ".join(f"{m} {v:.1f} %" for m, v in early.items()) + " on average over the first half"
    if rarely_fired(results, names["FedAA"]):
        return not_tested(claim, AA, text, f"{often}: it is FedAMS here.")
    faster = tuple(above(results, names["FedAA"], names[m], _first_half) for m in BASELINES)
    return Finding(claim, AA, text, note=f"{often}.", comparisons=faster, family=FIGURES[place])


def _first_half(outcome: Outcome) -> float:
    values = outcome.values()[: max(1, len(outcome.points) // 2)]
    return 100 * sum(values) / len(values)


def _threshold(results: Results, place: DataSplit) -> Finding:
    claim = f"the suggested size of C, sqrt(alpha log m)/m, makes NLA save ({where(place)})"
    if _missing(results, place, SUGGESTED):
        return not_run(claim, "text")
    rate = firing(results, place, SUGGESTED)
    tau = results.cells[name_of(place, SUGGESTED)].algorithm.up.tau
    text = f"with alpha = 1 it fired in {rate:.1%} of uploads"
    why = (
        f"the advice is underspecified: alpha is not given. With alpha = 1, tau = {tau:.1e}: two updates would have to "
        f"agree to a cosine of 1 - {tau**2 / 2:.0e}. The threshold here is {TAU_NLA}."
    )
    return not_tested(claim, "text", text, why)


def _fedcams(results: Results, place: DataSplit) -> Finding:
    claim = f"FedCAMS at 1/8 within a point of FedAMS at 6 times smaller uploads ({where(place)})"
    published = "expected from a toy study"
    if missing(results, place, "FedCAMS 1/8", "FedAMS"):
        return replace(not_run(claim, published), source=ClaimSource.TOY)
    less, more = ran(results, place, "FedCAMS 1/8", "FedAMS").values()
    ours, full = (results.final(name, last=LAST) for name in (less, more))
    ratio = results.spread(more, _uploaded).mean / results.spread(less, _uploaded).mean
    comparisons = (
        _within_a_point(results, less, more),
        times(results, more, less, 6.0, _uploaded, "bytes: FedAMS above 6 times FedCAMS 1/8"),
    )
    text = f"{ours:.1f} % against {full:.1f} %, uploads {ratio:.1f} times smaller"
    return Finding(
        claim, published, text, comparisons=comparisons, family=where(place), source=ClaimSource.TOY
    )


def _within_a_point(results: Results, name: str, other: str) -> Comparison:
    return no_worse(results, name, other, final_accuracy(LAST), POINT)


def _uploaded(outcome: Outcome) -> float:
    return outcome.bytes_up / 1e6


def _both_ways(results: Results, place: DataSplit) -> Finding:
    claim = f"two_way within a point of FedCAMS at less than half of the total bytes ({where(place)})"
    methods = ("two_way 1/8", "FedCAMS 1/8", "FedAvg")
    if missing(results, place, *methods):
        return not_run(claim, OWN)
    names = ran(results, place, *methods)
    less, more = names["two_way 1/8"], names["FedCAMS 1/8"]
    ours, cams = (results.final(name, last=LAST) for name in (less, more))
    sent = {m: results.spread(name, _megabytes).mean for m, name in names.items()}
    text = f"{ours:.1f} % against {cams:.1f} %; " + ", ".join(f"{m} {v:.1f} MB" for m, v in sent.items())
    comparisons = (
        _within_a_point(results, less, more),
        times(results, more, less, 2.0, _megabytes, "bytes: FedCAMS 1/8 above 2 times two_way 1/8"),
    )
    return Finding(claim, OWN, text, comparisons=comparisons, family=where(place))


def _literal(results: Results, place: DataSplit) -> Finding:
    claim = (
        f"compressing the model itself on the way down (Algorithm 2) loses to sending differences, at 1/8 "
        f"({where(place)})"
    )
    methods = ("FedBNLACA 1/8", "two_way 1/8")
    if missing(results, place, *methods):
        return not_run(claim, OWN)
    names = ran(results, place, *methods)
    text = ", ".join(_end(results, method, name) for method, name in names.items())
    literal, differences = names.values()
    better = (above(results, differences, literal, final_accuracy(LAST)),)
    note = "at 1/32 neither is tuned: in the tables only."
    return Finding(claim, OWN, text, note=note, comparisons=better, family=where(place))


def _end(results: Results, method: str, name: str) -> str:
    """Accuracy and traffic at the end of a cell."""
    sent = results.spread(name, _megabytes).mean
    return f"{method} {results.final(name, last=LAST):.1f} % ({sent:.1f} MB)"


def _tiny(results: Results, place: DataSplit) -> Finding:
    """The paper's second ratio; which of its figures have it is not said."""
    claim = (
        "at ratio 1/128 FedBACA and FedBNLACA are less accurate than at 1/8, at equal rounds; not tuned "
        f"({where(place)})"
    )
    names = {
        f"{m} {ratio}": name_of(place, f"{m} {ratio}")
        for m in ("FedBACA", "FedBNLACA")
        for ratio in ("1/8", "1/128")
    }
    if not results.have(*names.values()):
        return not_run(claim, OWN)
    text = ", ".join(_end(results, method, name) for method, name in names.items())
    better = tuple(
        above(results, names[f"{m} 1/8"], names[f"{m} 1/128"], final_accuracy(LAST))
        for m in ("FedBACA", "FedBNLACA")
    )
    note = _same_where_silent(results, *(names[f"{m} 1/128"] for m in ("FedBACA", "FedBNLACA")))
    return Finding(claim, OWN, text, note=note, comparisons=better, family=where(place))


def _same_where_silent(results: Results, aa: str, nla: str) -> str:
    """FedBACA and FedBNLACA differ in their rules only."""
    rates = [results.spread(name, fired).mean for name in (aa, nla)]
    same = [one.points == other.points for one, other in zip(results.of(aa), results.of(nla), strict=False)]
    told = f"AA fired in {rates[0]:.1%} of uploads, NLA in {rates[1]:.1%}"
    return (
        f"{told}; runs of the two at 1/128 that are the same in every evaluation: {sum(same)} of {len(same)}."
    )


def _lazy(results: Results, place: DataSplit) -> Finding:
    claim = f"lazy two_way (EF21, tau {TAU_EF21}) skips a fifth of the uploads without losing a point ({where(place)})"
    tried = ("two_way 1/8 lazy", "two_way 1/8 lazy, tau 0.5")
    if _missing(results, place, *tried, "two_way 1/8", "FedNLACA 1/8"):
        return not_run(claim, OWN)
    ends = {m: (firing(results, place, m), accuracy(results, place, m)) for m in tried}
    text = ", ".join(f"{m}: skips {rate:.0%}, {value:.1f} %" for m, (rate, value) in ends.items())
    plain, lazily = accuracy(results, place, "two_way 1/8"), firing(results, place, "FedNLACA 1/8")
    skips = above(results, name_of(place, tried[0]), name_of(place, tried[0]), fired)
    comparisons = (
        Comparison("skipped above a fifth", skips.seeds, skips.larger, (0.2,) * len(skips.seeds)),
        _within_a_point(results, name_of(place, tried[0]), name_of(place, "two_way 1/8")),
    )
    return Finding(
        claim,
        OWN,
        f"{text}; never skipping {plain:.1f} %; FedNLACA skips {lazily:.1%}",
        note="a skipped upload repeats an estimate that belongs to an older model.",
        comparisons=comparisons,
        family=where(place),
    )
