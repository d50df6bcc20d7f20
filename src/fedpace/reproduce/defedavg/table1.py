"""DeFedAvg, Table 1: virtual seconds to a target accuracy."""

from __future__ import annotations

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.comparison import Comparison, Measure, times
from fedpace.reproduce.defedavg import cifar, curves, table1_cells, table1_fastest
from fedpace.reproduce.defedavg.setting import FULL, OURS, PAPER, SAVING, SCALES, SECONDS, TRIED, N, settings
from fedpace.reproduce.defedavg.slopes import rounds_by_seed, slope_of
from fedpace.reproduce.defedavg.table1_cells import TITLES, name, numbers, taken
from fedpace.reproduce.defedavg.table1_fastest import sooner
from fedpace.reproduce.defedavg.table1_page import pictures, quotient, tables
from fedpace.reproduce.experiment import OWN, Finding, Procedure, not_run, reproduction
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid


def cells(edition: str, known: Results) -> list[Cell]:
    return [
        *table1_cells.cells(edition, known),
        *curves.cells(edition, known),
        *cifar.cells(edition, known),
    ]


def grids(edition: str) -> list[Grid]:
    return [*table1_cells.grids(edition), *cifar.grids(edition)]


# ------------------------------------------------------------------------------------------- judgement


def findings(edition: str, results: Results) -> list[Finding]:
    return [
        *table1_fastest.findings(edition, results),
        _fedbuff(edition, results),
        _slower(edition, results),
        _saves(edition, results),
        *curves.findings(edition, results),
        *cifar.findings(edition, results),
    ]


def _fedbuff(edition: str, results: Results) -> Finding:
    """Section 4.2.1: "FedBuff spends less time than the FedAvg when n is small", and less and less so."""
    claim = "FedBuff is faster than FedAvg at n = 10, and its advantage shrinks as n grows, two classes per client"
    pairs = list(zip(SECONDS["noniid"]["FedAvg"], SECONDS["noniid"]["FedBuff"], strict=True))
    published = "FedAvg takes " + ", ".join(f"{a / b:.1f}" for a, b in pairs) + " times as long"
    names = {n: [name("noniid", method, n) for method in ("FedAvg", "FedBuff")] for n in N}
    if not results.have(*(each for pair in names.values() for each in pair)):
        return not_run(claim, published)
    ratios = {n: quotient(edition, results, "noniid", n, "FedBuff") for n in N}
    ours = ", ".join(f"{ratio} (n = {n})" for n, ratio in ratios.items())
    note = f"section 4.2.1 says so. {_fewer_active(edition, results)}"
    comparisons = (sooner(edition, results, "noniid", "FedBuff", "FedAvg", N[0]), _shrinks(edition, results))
    return Finding(claim, published, ours, note=note, comparisons=comparisons, family="Table 1")


def _fewer_active(edition: str, results: Results) -> str:
    """The verdict depends on how many clients FedBuff keeps active, which the paper does not state."""
    ran = [n for n in numbers("FedBuff 2n") if results.have(name("noniid", "FedBuff 2n", n))]
    ratios = [f"{quotient(edition, results, 'noniid', n, 'FedBuff 2n')} (n = {n})" for n in ran]
    return (
        "FedBuff has all clients active, a reading: how many are is not stated. With 2n active FedAvg takes "
        f"{', '.join(ratios)} times as long."
    )


def _slower(edition: str, results: Results) -> Finding:
    """The one place of Table 1 where FedBuff is behind FedAvg."""
    n = 40
    slow, fast = (SECONDS["noniid"][method][N.index(n)] for method in ("FedBuff", "FedAvg"))
    claim, published = (
        f"FedBuff is slower than FedAvg at n = {n}, two classes per client",
        f"{slow} against {fast} s",
    )
    pair = [name("noniid", method, n) for method in ("FedBuff", "FedAvg")]
    if not results.have(*pair):
        return not_run(claim, published)
    ends = [taken(edition, results, "noniid", method, n) for method in ("FedBuff", "FedAvg")]
    first = (sooner(edition, results, "noniid", "FedAvg", "FedBuff", n),)
    note = "FedBuff with all clients active: how many are active is not stated."
    return Finding(
        claim,
        published,
        f"{ends[0]:.1f} against {ends[1]:.1f} s",
        note=note,
        comparisons=first,
        family="Table 1",
    )


def _shrinks(edition: str, results: Results) -> Comparison:
    """The slope of log(FedAvg's seconds / FedBuff's) against log n, seed by seed."""
    target = SCALES[edition].target["noniid"]
    slow, fast = (
        rounds_by_seed(results, {n: name("noniid", method, n) for n in N}, target, draw.seconds)
        for method in ("FedAvg", "FedBuff")
    )
    slopes = {
        seed: slope_of({n: slow[seed][n] / fast[seed][n] for n in N})
        for seed in sorted(slow.keys() & fast.keys())
    }
    return Comparison(
        "slope of the ratio below 0", tuple(slopes), (0.0,) * len(slopes), tuple(slopes.values())
    )


def _saves(edition: str, results: Results) -> Finding:
    claim = f"clients that train only after they were sampled train less often until the target, {TITLES['noniid']}"
    pairs = {n: (name("noniid", OURS, n), name("noniid", SAVING, n)) for n in N}
    done = {n: pair for n, pair in pairs.items() if results.have(*pair)}
    if not done:
        return not_run(claim, OWN)
    fewer = tuple(times(results, *pair, 1.0, _sessions_to_target(edition)) for pair in done.values())
    ours = "; ".join(f"n = {n}: {_spent(results, pair)}" for n, pair in done.items())
    note = "the paper has the same theory for both (section 2.3), and does not compare them."
    return Finding(claim, OWN, ours, note=note, comparisons=fewer, family="energy saving")


def _spent(results: Results, pair: tuple[str, str]) -> str:
    """Local trainings and seconds of two cells."""
    counts = [results.spread(each, _sessions).mean for each in pair]
    ends = [results.spread(each, lambda outcome: outcome.seconds).mean for each in pair]
    return f"{counts[0]:.0f} → {counts[1]:.0f} trainings, {ends[0]:.1f} → {ends[1]:.1f} s"


def _sessions(outcome: Outcome) -> float:
    return float(outcome.sessions)


def _sessions_to_target(edition: str) -> Measure:
    """A run that does not get there has no such number."""
    target = SCALES[edition].target["noniid"]
    return lambda outcome: None if outcome.first_at(target) is None else _sessions(outcome)


EXPERIMENT = reproduction(
    "defedavg-table1",
    f"""
    DeFedAvg: virtual seconds to a target accuracy

    {PAPER}: Table 1, Figures 2 to 5

    Devices differ in speed by a factor of five. FedAvg waits for the slowest of each round; DeFedAvg keeps all
    clients active and uses the updates available. How long, on the paper's clock, until the target accuracy?
    """,
    Procedure(cells, findings, tables, pictures, grids),
    settings(
        """
        rates | best of server 0.1, 1 and local 0.001 … 0.1, for every n (Table 2)
            | quick: best of seven pairs with server 0.1, 0.3, 1 for every n (the slow ones: n = 10), tuned on seeds of
            their own (tuning.json), over 20 virtual seconds, 12 where all clients are active; full: Table 2
        FedBuff | concurrency not stated | all clients active; also 2n active (at n = 80 that is all)
        AsySG | which clients are active is not stated | n active
        FAVANO | rhythm of the server not stated | one step per cycle of the fastest client
        evaluation; cut | not stated; > 880 s printed where not reached
            | every 0.25 virtual seconds (full: 1 s); 40 s (FAVANO, AsySG 20 s); full: 600 and 880 s
            (for their cost FAVANO and FedBuff 60 s, set when DeFedAvg's 28 and 45 s at n = 10 were known; at n = 80
            DeFedAvg as long as in print and the others a third longer, set when it had run for 40 s there)
        curves (Figures 2 to 5) | 3 seeds
            | quick: the first 10 virtual seconds, every 0.5, at the table's rates; training loss over all
            clients' data
        """
    ),
    notes={"quick": TRIED, "full": FULL},
)
