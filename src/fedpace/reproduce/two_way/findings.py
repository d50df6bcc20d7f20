"""What the two-way experiment is to show, claim by claim: those of the paper.

The paper plots accuracy against bits, so its claims are judged at equal bytes: at the budget of the method that the
claim is about, a rival has what it had learned when it had sent as much.
"""

from __future__ import annotations

from dataclasses import replace

from fedpace.reproduce.comparison import Comparison, above, cheaper, final_accuracy
from fedpace.reproduce.experiment import Finding, not_run, not_tested
from fedpace.reproduce.judgement import LEAST
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way import cnn
from fedpace.reproduce.two_way.budgets import COSTS, Spending, by_bytes, bytes_budgets, megabytes, told
from fedpace.reproduce.two_way.cells import (
    BASELINES,
    LAST,
    PLACES,
    SUGGESTED,
    TAU_AA,
    TAU_NLA,
    DataSplit,
    name_of,
    where,
)
from fedpace.reproduce.two_way.ends import accuracy, end_of, firing, missing_untuned
from fedpace.reproduce.two_way.firing import (
    JUDGED_BEFORE,
    fired,
    how_often,
    often_and_about,
    rarely_fired,
    without_rule,
)
from fedpace.reproduce.two_way.own_findings import own_findings
from fedpace.reproduce.two_way.targets import TARGETS, to_target
from fedpace.reproduce.two_way.tuned import EVERYWHERE, FIGURES, TIMED, WITH_A_CNN, missing, ran

# of the MLP's figures the paper has captions only
NLA, AA = "said of Figures 1, 3 (CNN)", "said of Figures 2, 4 (CNN)"
ADDED_LATER = (
    "this row was added after the first runs. FedAvg has two server rates, the others three and two eps beside them; "
    "b1 and the threshold are those that the MLP's grids chose."
)
SAID = {"FedNLAA": NLA, "FedACA 1/8": AA, "FedBACA 1/8": AA}


def findings(edition: str, results: Results) -> list[Finding]:
    checks = (_fewest, _aa, _threshold)
    return [
        *(
            by_bytes(results, place, method, figures)
            for method, figures in SAID.items()
            for place in EVERYWHERE
        ),
        *(to_target(results, place, method, figures) for method, figures in SAID.items() for place in PLACES),
        *(_agreeing(results, place) for place in EVERYWHERE if place.split != "iid"),
        *(_especially(results, place) for place in EVERYWHERE),
        *(check(results, place) for check in checks for place in TIMED),
        *own_findings(edition, results),
        *(_with_a_cnn(results) if edition == "quick" else [_no_cnn()]),
    ]


def _with_a_cnn(results: Results) -> list[Finding]:
    """Figures 1 to 4, which the text is about, and 13 to 20, of which it has captions."""
    return [
        *(
            by_bytes(results, place, method, SAID[method])
            for place in WITH_A_CNN
            for method in cnn.judged(place.split)
        ),
        _worst(results, cnn.TUNED_AT["non-iid"]),
        *(check(results, place) for check in (_fewest, _aa) for place in cnn.TUNED_AT.values()),
        *(_especially(results, place) for place in WITH_A_CNN if place.split == "non-iid"),
    ]


def _no_cnn() -> Finding:
    why = "a CNN takes hours; the quick edition has a small one."
    return not_run("the same with a CNN (Figures 1-4, 13-20)", "said of Figures 1-4", why)


def _worst(results: Results, place: DataSplit) -> Finding:
    """At the budget of FedNLAA, which the figure is about."""
    claim = (
        "FedAvg is the least accurate of FedAvg, FedAdam, FedAMS and FedNLAA at equal bytes, up and both ways "
        f"({where(place)})"
    )
    published = "said of Figure 3 (CNN)"
    if missing(results, place, "FedNLAA", *BASELINES):
        return not_run(claim, published)
    budgets = bytes_budgets(results, place, "FedNLAA")
    better = tuple(one for side, budget in budgets.items() for one in _above_fedavg(results, budget, side))
    often = often_and_about(results, budgets["up"].own["FedNLAA"], "FedNLAA")
    note = f"{ADDED_LATER} FedNLAA: {often}."
    text = told(results, list(budgets.values()))
    return Finding(claim, published, text, note=note, comparisons=better, family=FIGURES[place])


def _above_fedavg(results: Results, budget: Spending, side: str) -> list[Comparison]:
    every = {**budget.own, **budget.rivals.names}
    worst = every.pop("FedAvg")
    return [
        above(results, name, worst, budget.measure, f"{m} above FedAvg, bytes {side}")
        for m, name in every.items()
    ]


def _agreeing(results: Results, place: DataSplit) -> Finding:
    """Both send as much: what AA itself is worth."""
    claim = f"FedACA 1/8 is more accurate than FedCAMS 1/8, at the same bytes ({where(place)})"
    published = "FedCAMS is among the methods compared; the text says it of three that are not named"
    methods = ("FedACA 1/8", "FedCAMS 1/8")
    if missing(results, place, *methods):
        return not_run(claim, published)
    names = ran(results, place, *methods)
    text = ", ".join(end_of(results, method, name) for method, name in names.items())
    rule, plain = names.values()
    if rarely_fired(results, rule):
        return not_tested(claim, published, text, f"{how_often(results, rule)}.")
    better = above(results, rule, plain, final_accuracy(LAST))
    note = f"{how_often(results, rule)}.{_later_seeds(better)}"
    return Finding(claim, published, text, note=note, comparisons=(better,), family=FIGURES[place])


def _later_seeds(better: Comparison) -> str:
    """The seeds that were added when the first had been judged."""
    later = replace(
        better,
        seeds=better.seeds[JUDGED_BEFORE:],
        larger=better.larger[JUDGED_BEFORE:],
        smaller=better.smaller[JUDGED_BEFORE:],
    )
    if len(later.seeds) < LEAST or later.p is None or better.p is None:
        return ""
    before = f" Before the correction p is {better.p:.2g}"
    return f"{before}, and {later.p:.2g} on the seeds from {JUDGED_BEFORE} on alone."


def _especially(results: Results, place: DataSplit) -> Finding:
    claim = f"FedBACA 1/8 is more accurate than FedACA 1/8 at equal bytes both ways ({where(place)})"
    published = f"{AA}: FedACA and FedBACA, especially FedBACA"
    if missing(results, place, "FedBACA 1/8", "FedACA 1/8"):
        return not_run(claim, published)
    cost = megabytes(COSTS["both ways"])
    budget = Spending.of(results, place, "FedBACA 1/8", cost, "{:.1f} MB both ways", ["FedACA 1/8"])
    names = {**budget.own, **budget.rivals.names}
    text = told(results, [budget])
    often = "; ".join(f"{m.split()[0]}: {how_often(results, name)}" for m, name in names.items())
    if any(rarely_fired(results, name) for name in names.values()):
        return not_tested(claim, published, text, f"{often}: in less than 1 % with at least one of them.")
    better = tuple(budget.compared(results))
    return Finding(claim, published, text, note=f"{often}.", comparisons=better, family=FIGURES[place])


def _fewest(results: Results, place: DataSplit) -> Finding:
    target = TARGETS[place.data][place.split]
    claim = f"FedNLACA and FedBNLACA need few bits to {target:.0%}, FedBNLACA fewest ({where(place)})"
    methods = ("FedNLAA", "FedNLACA 1/8", "FedBNLACA 1/8")
    if missing(results, place, *methods):
        return not_run(claim, NLA)
    names = list(ran(results, place, *methods).values())
    spent = [results.to_target(name, target, megabytes(COSTS["both ways"])) for name in names]
    text = ", ".join(
        f"{m} {v:.1f} MB (NLA fired in {results.spread(name, fired).mean:.1%})"
        for m, name, v in zip(methods, names, spent, strict=True)
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


def _aa(results: Results, place: DataSplit) -> Finding:
    claim = f"FedAA converges faster than FedAvg, FedAdam and FedAMS ({where(place)})"
    if missing(results, place, "FedAA", *BASELINES):
        return not_run(claim, AA)
    names = ran(results, place, "FedAA", *BASELINES)
    early = ", ".join(f"{m} {results.spread(name, _first_half):.1f}" for m, name in names.items())
    text = f"{early} % on average over the first half"
    often = how_often(results, names["FedAA"])
    if rarely_fired(results, names["FedAA"]):
        same = without_rule(results, names["FedAA"], "FedAA")
        return not_tested(claim, AA, text, f"{often}: {same}.{_aa_untuned(results, place)}")
    faster = tuple(above(results, names["FedAA"], names[m], _first_half) for m in BASELINES)
    return Finding(claim, AA, text, note=f"{often}.", comparisons=faster, family=FIGURES[place])


def _aa_untuned(results: Results, place: DataSplit) -> str:
    """At a threshold at which it may fire, if that was run."""
    if missing_untuned(results, place, "FedAA", "FedAMS"):
        return ""
    ends = ", ".join(f"{m} at {accuracy(results, place, m):.1f} %" for m in ("FedAA", "FedAMS"))
    rate = firing(results, place, "FedAA")
    return f" Not tuned, with a threshold of {TAU_AA}, it fires in {rate:.1%} of uploads and ends: {ends}."


def _first_half(outcome: Outcome) -> float:
    values = outcome.values()[: max(1, len(outcome.points) // 2)]
    return 100 * sum(values) / len(values)


def _threshold(results: Results, place: DataSplit) -> Finding:
    claim = f"the suggested size of C, sqrt(alpha log m)/m, makes NLA save ({where(place)})"
    if missing_untuned(results, place, SUGGESTED):
        return not_run(claim, "text")
    rate = firing(results, place, SUGGESTED)
    tau = results.cells[name_of(place, SUGGESTED)].algorithm.up.tau
    text = f"with alpha = 1 it fired in {rate:.1%} of uploads"
    why = (
        f"the advice is underspecified: alpha is not given. With alpha = 1, tau = {tau:.1e}: two updates would have to "
        f"agree to a cosine of 1 - {tau**2 / 2:.0e}. The threshold here is {TAU_NLA}."
    )
    return not_tested(claim, "text", text, why)
