"""What the two-way experiment is to show, claim by claim."""

from __future__ import annotations

from collections.abc import Callable

from fedpace.reproduce.experiment import OWN, Finding, judged, not_run
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results, SeedSpread
from fedpace.reproduce.two_way_cells import (
    BASELINES,
    LAST,
    SUGGESTED,
    TAU_AA,
    TAU_EF21,
    TAU_NLA,
    Place,
    name_of,
)


def findings(edition: str, results: Results) -> list[Finding]:
    checks = (_nla, _fewest, _aa, _aca, _threshold, _fedcams, _both_ways, _literal, _lazy)
    found = [
        check(results, place)
        for check in checks
        for place in (("Fashion-MNIST", "iid"), ("Fashion-MNIST", "non-iid"))
    ]
    return [
        *found,
        not_run(
            "the same with a CNN (Figures 1-4, 13-20)",
            "as for the MLP",
            "the MLP was run; a CNN takes hours.",
        ),
    ]


def accuracy(results: Results, place: Place, method: str) -> SeedSpread:
    return results.final(name_of(place, method), last=LAST)


def traffic(results: Results, place: Place, method: str, side: str = "both") -> float:
    """Megabytes until the end."""
    measures: dict[str, Callable[[Outcome], float]] = {
        "both": lambda outcome: (outcome.bytes_up + outcome.bytes_down) / 1e6,
        "up": lambda outcome: outcome.bytes_up / 1e6,
        "down": lambda outcome: outcome.bytes_down / 1e6,
    }
    return results.spread(name_of(place, method), measures[side]).mean


def firing(results: Results, place: Place, method: str) -> float:
    return results.spread(name_of(place, method), lambda o: o.traffic["up"]["firing_rate"]).mean


def _missing(results: Results, place: Place, *methods: str) -> bool:
    return not results.have(*(name_of(place, method) for method in methods))


def where(place: Place) -> str:
    return f"{place[0]}, {place[1]}"


def _nla(results: Results, place: Place) -> Finding:
    claim = f"FedNLAA needs fewer bits and is more accurate than FedAvg, FedAdam and FedAMS ({where(place)})"
    tried = ("FedNLAA", "FedNLAA, tau 0.3")
    if _missing(results, place, *tried, *BASELINES):
        return not_run(claim, "Figures 1, 3")
    rest = {method: accuracy(results, place, method) for method in BASELINES}
    saved = {m: 1 - traffic(results, place, m, "up") / traffic(results, place, "FedAMS", "up") for m in tried}
    ours = ", ".join(
        f"{m} {accuracy(results, place, m):.1f} % (uploads {saved[m]:.0%} smaller)" for m in tried
    )
    text = f"{ours}; " + ", ".join(f"{method} {value:.1f} %" for method, value in rest.items())
    ok = any(saved[m] > 0 and all(accuracy(results, place, m).above(r) for r in rest.values()) for m in tried)
    note = f"tau {TAU_NLA} and 0.3; skipping saves uploads only, and a repeated update is no better than a fresh one."
    return Finding(claim, "Figures 1, 3", text, judged(ok), note)


def _fewest(results: Results, place: Place) -> Finding:
    claim = f"FedNLACA and FedBNLACA need few bits, FedBNLACA fewest ({where(place)})"
    names = ("FedAMS", "FedNLAA", "FedNLACA 1/8", "FedBNLACA 1/8")
    if _missing(results, place, *names):
        return not_run(claim, "Figures 1, 3")
    sent = {method: traffic(results, place, method) for method in names}
    text = ", ".join(f"{method} {value:.1f} MB" for method, value in sent.items())
    ok = sent["FedBNLACA 1/8"] < sent["FedNLACA 1/8"] < sent["FedNLAA"]
    return Finding(claim, "Figures 1, 3", text, judged(ok))


def _aa(results: Results, place: Place) -> Finding:
    claim = f"FedAA converges faster than FedAvg, FedAdam and FedAMS ({where(place)})"
    if _missing(results, place, "FedAA", *BASELINES):
        return not_run(claim, "Figures 2, 4")
    early = {m: results.spread(name_of(place, m), _first_half) for m in ("FedAA", *BASELINES)}
    text = (
        ", ".join(f"{m} {v:.1f} %" for m, v in early.items())
        + f" on average; AA fired in {firing(results, place, 'FedAA'):.1%}"
    )
    ok = all(early["FedAA"].above(early[method]) for method in BASELINES)
    note = "a doubled update also raises AMSGrad's second moment, which never falls again."
    return Finding(claim, "Figures 2, 4", text, judged(ok), note)


def _first_half(outcome: Outcome) -> float:
    values = outcome.values()[: max(1, len(outcome.points) // 2)]
    return 100 * sum(values) / len(values)


def _aca(results: Results, place: Place) -> Finding:
    claim = (
        f"FedACA and FedBACA are more accurate than FedAvg, FedAdam and FedAMS, FedBACA best ({where(place)})"
    )
    names = ("FedBACA 1/8", "FedACA 1/8", *BASELINES)
    if _missing(results, place, *names):
        return not_run(claim, "Figures 2, 4")
    ends = {method: accuracy(results, place, method) for method in names}
    text = ", ".join(f"{method} {value:.1f} %" for method, value in ends.items())
    ok = all(ends["FedBACA 1/8"].above(ends[method]) for method in BASELINES)
    note = "at equal rounds compression cannot be expected to win; at equal bytes see the picture."
    return Finding(claim, "Figures 2, 4", text, judged(ok), note)


def _threshold(results: Results, place: Place) -> Finding:
    claim = f"the suggested size of C, sqrt(alpha log m)/m, makes NLA save ({where(place)})"
    if _missing(results, place, SUGGESTED):
        return not_run(claim, "text")
    rate = firing(results, place, SUGGESTED)
    tau = results.cells[name_of(place, SUGGESTED)].algorithm.up.tau
    note = (
        f"tau = {tau:.1e}: two updates would have to agree to a cosine of 1 - {tau**2 / 2:.0e}. Thresholds here are "
        f"{TAU_NLA} (NLA) and {TAU_AA} (AA)."
    )
    return Finding(claim, "text", f"fired in {rate:.1%} of uploads", judged(rate > 0.01), note)


def _fedcams(results: Results, place: Place) -> Finding:
    claim = f"FedCAMS at 1/8 within a point of FedAMS at 7 times smaller uploads ({where(place)})"
    if _missing(results, place, "FedCAMS 1/8", "FedAMS"):
        return not_run(claim, "expected from the specification's toy study")
    ours, full = (accuracy(results, place, m) for m in ("FedCAMS 1/8", "FedAMS"))
    ratio = traffic(results, place, "FedAMS", "up") / traffic(results, place, "FedCAMS 1/8", "up")
    text = f"{ours:.1f} % against {full:.1f} %, uploads {ratio:.1f} times smaller"
    return Finding(claim, "expected from a toy study", text, judged(ours.mean > full.mean - 1 and ratio > 6))


def _both_ways(results: Results, place: Place) -> Finding:
    claim = f"two_way within a point of FedCAMS at a fraction of the total bytes ({where(place)})"
    if _missing(results, place, "two_way 1/8", "FedCAMS 1/8", "FedAvg"):
        return not_run(claim, OWN)
    ours, cams = (accuracy(results, place, m) for m in ("two_way 1/8", "FedCAMS 1/8"))
    sent = {m: traffic(results, place, m) for m in ("two_way 1/8", "FedCAMS 1/8", "FedAvg")}
    text = f"{ours:.1f} % against {cams:.1f} %; " + ", ".join(f"{m} {v:.1f} MB" for m, v in sent.items())
    ok = ours.mean > cams.mean - 1 and sent["two_way 1/8"] < 0.5 * sent["FedCAMS 1/8"]
    return Finding(claim, OWN, text, judged(ok))


def _literal(results: Results, place: Place) -> Finding:
    claim = f"compressing the model itself on the way down (Algorithm 2) loses to sending differences ({where(place)})"
    names = ("FedBNLACA 1/8", "two_way 1/8", "FedBNLACA 1/32", "two_way 1/32")
    if _missing(results, place, *names):
        return not_run(claim, OWN)
    ends = {method: accuracy(results, place, method) for method in names}
    text = ", ".join(f"{m} {v:.1f} % ({traffic(results, place, m):.1f} MB)" for m, v in ends.items())
    ok = all(ends[f"two_way {ratio}"].above(ends[f"FedBNLACA {ratio}"]) for ratio in ("1/8", "1/32"))
    return Finding(claim, OWN, text, judged(ok))


def _lazy(results: Results, place: Place) -> Finding:
    claim = f"lazy two_way (EF21) skips a fifth of the uploads without losing a point ({where(place)})"
    tried = ("two_way 1/8 lazy", "two_way 1/8 lazy, tau 0.5")
    if _missing(results, place, *tried, "two_way 1/8", "FedNLACA 1/8"):
        return not_run(claim, OWN)
    plain = accuracy(results, place, "two_way 1/8")
    ends = {m: (firing(results, place, m), accuracy(results, place, m)) for m in tried}
    ours = ", ".join(f"{m}: skips {rate:.0%}, {value:.1f} %" for m, (rate, value) in ends.items())
    text = (
        f"{ours}; never skipping {plain:.1f} %; FedNLACA skips {firing(results, place, 'FedNLACA 1/8'):.1%}"
    )
    ok = any(rate > 0.2 and value.mean > plain.mean - 1 for rate, value in ends.values())
    note = f"tau {TAU_EF21} and 0.5. A skipped upload repeats an estimate that belongs to an older model."
    return Finding(claim, OWN, text, judged(ok), note)
