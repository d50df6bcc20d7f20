"""CA2FL, Tables 4 and 5: how stale updates are, over concurrency, buffer size and delay distributions. Timing only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedpace import algorithms
from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell, TimingOnly
from fedpace.reproduce.experiment import Finding, Procedure, Table, compared, judged, not_run, reproduction
from fedpace.reproduce.results import Results
from fedpace.sim import Population
from fedpace.sim.distributions import Between

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDS = 500


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the paper's tables."""

    concurrency: int
    buffer: int
    delays: str
    mean: float  # printed tau_avg
    largest: int | None = None  # printed tau_max

    @property
    def name(self) -> str:
        return f"Mc={self.concurrency} M={self.buffer} {self.delays}"

    @property
    def exact(self) -> float:
        """Whatever the delays: a slot is busy in every round, and M of the Mc are freed in each."""
        return self.concurrency / self.buffer - 1


TABLE_4 = (
    Row(15, 10, "U(0,5)", 0.4888, 3),
    Row(20, 10, "U(0,5)", 0.9184, 4),
    Row(25, 10, "U(0,5)", 1.312, 5),
    Row(20, 15, "U(0,5)", 0.3264, 2),
    Row(20, 5, "U(0,5)", 2.6512, 9),
)
TABLE_5 = (
    Row(20, 10, "U(0,1)", 0.9092, 6),
    Row(20, 10, "U(0,0.5)", 0.8992, 6),
    Row(20, 10, "5 for all", 0.9946),
)
ROWS = (*TABLE_4, *TABLE_5)
SCALES: Mapping[str, float | Between] = {
    "U(0,5)": 5.0,
    "U(0,1)": 1.0,
    "U(0,0.5)": 0.5,
    "5 for all": Between(5.0, 5.0),
}
BASES = (0.0, 5.0)  # seconds that every session takes beside its random delay: as printed, and calibrated


def cells(edition: str, known: Results) -> list[Cell]:
    """The paper's own 500 rounds in both editions: without training they take seconds."""
    return [
        Cell(
            name=_cell(row, base),
            algorithm=algorithms.fedbuff(
                buffer=row.buffer, concurrency=row.concurrency, steps=1, batch_size=None
            ),
            task=TimingOnly(),
            population=Population.half_normal(SCALES[row.delays], base),
            rounds=ROUNDS,
            evaluate_every=None,
        )
        for row in ROWS
        for base in BASES
    ]


def _cell(row: Row, base: float) -> str:
    return f"{row.name}, base {base:g}"


def findings(edition: str, results: Results) -> list[Finding]:
    if not results.have(*(_cell(row, base) for row in ROWS for base in BASES)):
        return [not_run("staleness over (Mc, M) and delay distributions", "Tables 4, 5")]
    return [_exact(results), _printed(results), _largest(results), _scale(results), _common(results)]


def _exact(results: Results) -> Finding:
    off = max(abs(_mean(results, row, base) - row.exact) / row.exact for row in ROWS for base in BASES)
    return Finding(
        "mean staleness equals Mc/M - 1 exactly, for any delays",
        "not stated; follows from Algorithm 2",
        f"largest relative difference {off:.1%} over {len(ROWS)} settings and both bases",
        judged(off < 0.03),
        "the rest is the sessions in flight when the run ends.",
    )


def _printed(results: Results) -> Finding:
    pairs = [(_mean(results, row, 5.0), row.mean) for row in ROWS]
    worst = max(abs(ours / theirs - 1) for ours, theirs in pairs)
    return Finding(
        "printed mean staleness",
        ", ".join(f"{row.mean:g}" for row in ROWS),
        ", ".join(f"{ours:.3f}" for ours, _ in pairs) + f"; up to {worst:.0%} larger",
        judged(worst < 0.05),
        "rounds of exactly M updates cannot give the printed values: by the identity above the mean is Mc/M - 1 up to "
        "the end of the run. The printed ones would follow from rounds that sometimes take more than M updates (tied, "
        "discretised times: 10.07, 10.43, 10.81, 15.08, 5.48 on average). The order over (Mc, M) is the same, and the "
        "value printed for a common delay distribution, 0.9946, agrees.",
    )


def _largest(results: Results) -> Finding:
    ours = {base: [_most(results, row, base) for row in TABLE_4] for base in BASES}
    close = all(abs(found - (row.largest or 0)) <= 1.0 for found, row in zip(ours[5.0], TABLE_4, strict=True))
    return Finding(
        "printed maximal staleness (Table 4), if a session takes 5 s besides its random delay",
        ", ".join(str(row.largest) for row in TABLE_4),
        "base 0: "
        + ", ".join(f"{value:.1f}" for value in ours[0.0])
        + "; base 5: "
        + ", ".join(f"{value:.1f}" for value in ours[5.0]),
        judged(close),
        "with the delay as printed, |N(0, s²)|, the maxima are about twice as large; with a constant 5 added to it "
        "(a session has to compute too) they come out within one.",
    )


def _scale(results: Results) -> Finding:
    names = ("U(0,5)", "U(0,1)", "U(0,0.5)")
    means = [_mean(results, _row(20, 10, delays), 0.0) for delays in names]
    return Finding(
        "Table 5: the scale of the delays makes almost no difference",
        "0.9184, 0.9092, 0.8992",
        ", ".join(f"{value:.4f}" for value in means),
        judged(max(means) - min(means) < 0.02),
        "without a base it makes none at all: scaling every delay changes no order of events.",
    )


def _common(results: Results) -> Finding:
    ours = _mean(results, _row(20, 10, "5 for all"), 0.0)
    return Finding(
        "common distribution, scale 5 for all: mean staleness",
        "0.9946",
        f"{ours:.4f}",
        judged(abs(ours - 0.9946) < 0.01),
    )


def _row(concurrency: int, buffer: int, delays: str) -> Row:
    return next(r for r in ROWS if (r.concurrency, r.buffer, r.delays) == (concurrency, buffer, delays))


def _mean(results: Results, row: Row, base: float) -> float:
    return results.spread(_cell(row, base), lambda outcome: outcome.mean_staleness).mean


def _most(results: Results, row: Row, base: float) -> float:
    return results.spread(_cell(row, base), lambda outcome: outcome.max_staleness).mean


def tables(edition: str, results: Results) -> list[Table]:
    rows = [
        (
            row.name,
            f"{row.mean:g}",
            f"{row.exact:.4f}",
            *(f"{results.spread(_cell(row, base), lambda o: o.mean_staleness):.4f}" for base in BASES),
            str(row.largest or ""),
            *(f"{results.spread(_cell(row, base), lambda o: o.max_staleness):.1f}" for base in BASES),
        )
        for row in ROWS
    ]
    header = ("", "mean printed", "Mc/M - 1", "base 0", "base 5", "max printed", "base 0", "base 5")
    return [Table("Staleness", header, rows)]


def pictures(edition: str, results: Results) -> Mapping[str, Figure]:
    with draw.style():
        figure, ((left, right),) = draw.sheet(2, width=5.0)
        labels = [f"{row.concurrency}, {row.buffer}" for row in TABLE_4]
        draw.bars(
            left,
            labels,
            {
                "published": [row.mean for row in TABLE_4],
                "measured": [_mean(results, row, 5.0) for row in TABLE_4],
                "Mc/M - 1": [row.exact for row in TABLE_4],
            },
        )
        draw.titled(left, "Mean staleness", "active clients Mc, buffer M", "server steps", "upper left")
        draw.bars(
            right,
            labels,
            {
                "published": [float(row.largest or 0) for row in TABLE_4],
                "|N(0, s²)|": [_most(results, row, 0.0) for row in TABLE_4],
                "5 + |N(0, s²)|": [_most(results, row, 5.0) for row in TABLE_4],
            },
        )
        draw.titled(right, "Maximal staleness", "active clients Mc, buffer M", "", "upper left")
    return {"staleness": figure}


_SETTINGS = compared(
    """
    clients, rounds | 100, 500 | the same
    delays | half-normal, scale drawn once per client | the same; also with 5 s of base time
    network and data | ResNet-18 on CIFAR-10 | none: staleness does not depend on what is learned
    dispatch | after each step, M of the inactive clients | the same
    """
)

EXPERIMENT = reproduction(
    "ca2fl-delay",
    """
    CA2FL: how stale the updates are

    Wang et al., "Tackling the Data Heterogeneity in Asynchronous Federated Learning with Cached Update
    Calibration" (CA2FL), ICLR 2024: Tables 4 and 5, Figures 4 and 5

    Staleness is not a parameter: it follows from how many clients work at once (Mc) and how many updates make a
    server step (M). The paper prints what it measured; an exact identity says what any simulation must find.
    """,
    Procedure(cells, findings, tables, pictures),
    {"quick": _SETTINGS, "full": _SETTINGS},
)
