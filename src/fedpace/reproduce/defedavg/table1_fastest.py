"""DeFedAvg's Table 1: whether it is the fastest, over all n in the quick edition, for every n in the full one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.comparison import Comparison, cheaper
from fedpace.reproduce.defedavg.setting import OURS, SCALES, SECONDS, N
from fedpace.reproduce.defedavg.table1_cells import METHODS, TITLES, name, taken
from fedpace.reproduce.defedavg.table1_page import compared_at, ended, printed_seconds
from fedpace.reproduce.experiment import Finding, not_run, not_tested
from fedpace.reproduce.results import Results


def findings(edition: str, results: Results) -> list[Finding]:
    """Few cells are run with the paper's CNN, but all methods at some n: there the claim is judged in parts.

    A part is named `claim: n = ...`, by which the counts of verdicts know that it is not another claim.
    """
    if edition == "full":
        return [_at(edition, results, split, n) for split in METHODS for n in N]
    return [_everywhere(edition, results, split) for split in METHODS]


def _claim(split: str) -> str:
    return f"DeFedAvg is the fastest to the target, {TITLES[split]}"


def _everywhere(edition: str, results: Results, split: str) -> Finding:
    """One claim for the four n of a split."""
    published = "fastest at n = 10, 20, 40, 80"
    claim = _claim(split)
    done = compared_at(results, split)
    if not done:
        return not_run(claim, published)
    rivals = _rivals(split)
    pairs = {
        (n, m): sooner(edition, results, split, OURS, m, n)
        for n in N
        for m in rivals
        if results.have(name(split, m, n), name(split, OURS, n))
    }
    wins = {n: [m for m in rivals if (n, m) in pairs and _behind(pairs[n, m])] for n in done}
    ours = "; ".join(f"n = {n}: {_place(results, split, rivals, n, ahead)}" for n, ahead in wins.items())
    missing = {n: ", ".join(_missing(results, split, [OURS, *rivals], n)) for n in N}
    if any(missing.values()):
        return not_tested(claim, published, ours, f"not run: {_by_what(missing)}.")
    note = ""
    if any("FedBuff" in rival for rival in wins.values()):
        note = (
            "FedBuff's concurrency is not stated. With all clients active (the reading taken for the verdict) updates "
            "of all clients arrive all the time; speed and classes of a client are independent here, so that a bias "
            "towards fast clients costs little. The table has 2n active clients too (FedBuff 2n)."
        )
    return Finding(claim, published, ours, note=note, comparisons=tuple(pairs.values()), family="Table 1")


def _at(edition: str, results: Results, split: str, n: int) -> Finding:
    claim, methods = f"{_claim(split)}: n = {n}", [OURS, *_rivals(split)]
    seconds = {method: printed_seconds(SECONDS[split][method][N.index(n)]) for method in methods}
    published = _list(seconds)
    shown = {method: _form(results, split, method, n) for method in methods}
    missing = [method for method, form in shown.items() if form is None]
    run = [form for form in shown.values() if form is not None]
    why = f"not run: {', '.join(missing)}." if missing and run else ""
    if len(run) < 2 or OURS in missing:
        return not_run(claim, published, why)
    ours = _list({form: ended(edition, results, split, form, n) for form in run})
    if missing:
        return not_tested(claim, published, ours, why)
    pairs = {form: sooner(edition, results, split, OURS, form, n) for form in run if form != OURS}
    note = " ".join(each for each in (_given_up(edition, results, split, n, pairs), _reading(run)) if each)
    return Finding(claim, published, ours, note=note, comparisons=tuple(pairs.values()), family="Table 1")


def _rivals(split: str) -> list[str]:
    return [method for method in SECONDS[split] if method != OURS]


def _form(results: Results, split: str, method: str, n: int) -> str | None:
    """The reading of a printed method that was run: of FedBuff that with 2n active clients if it alone was."""
    forms = [each for each in METHODS[split] if each in (method, f"{method} 2n")]
    return next((form for form in forms if results.have(name(split, form, n))), None)


def _list(seconds: Mapping[str, str]) -> str:
    return ", ".join(f"{method} {took}" for method, took in seconds.items()) + " s"


def _given_up(edition: str, results: Results, split: str, n: int, pairs: Mapping[str, Comparison]) -> str:
    """Rivals that did not get to the target: later than DeFedAvg did they are slower, before it nothing is known."""
    said = []
    for rival, pair in pairs.items():
        if taken(edition, results, split, rival, n).reached:
            continue
        spent = results.spread(name(split, rival, n), lambda outcome: outcome.seconds).mean
        slower = bool(pair.seeds) and pair.difference.mean > 0
        how = ", later than DeFedAvg arrived: it counts as slower" if slower else ": the order is not known"
        said.append(f"{rival} was given up after {spent:.0f} s{how}.")
    return " ".join(said)


def _reading(run: Sequence[str]) -> str:
    if "FedBuff 2n" not in run:
        return ""
    return (
        "FedBuff's concurrency is not stated: here 2n clients are active; with all of them, the quick edition's "
        "reading, it was not run."
    )


def sooner(edition: str, results: Results, split: str, method: str, rival: str, n: int) -> Comparison:
    target = SCALES[edition].target[split]
    return cheaper(results, name(split, method, n), name(split, rival, n), target, draw.seconds)


def _missing(results: Results, split: str, rivals: Sequence[str], n: int) -> list[str]:
    return [method for method in rivals if not results.have(name(split, method, n))]


def _by_what(missing: Mapping[int, str]) -> str:
    """Places that lack the same methods together."""
    lacks = [each for each in dict.fromkeys(missing.values()) if each]
    places = {each: ", ".join(str(n) for n, own in missing.items() if own == each) for each in lacks}
    return "; ".join(f"{each} at n = {where}" for each, where in places.items())


def _place(results: Results, split: str, rivals: Sequence[str], n: int, ahead: Sequence[str]) -> str:
    missing = _missing(results, split, rivals, n)
    return (f"behind {', '.join(ahead)}" if ahead else "fastest") + (
        f" of those run ({', '.join(missing)}: not run)" if missing else ""
    )


def _behind(own: Comparison) -> bool:
    """Whether the rival is sooner, on average over the seeds for which that is known."""
    return bool(own.seeds) and own.difference.mean < 0
