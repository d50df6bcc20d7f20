"""Accuracy against traffic: lazy and compressed FedAMS, up and down, and our own two_way."""

from __future__ import annotations

from functools import partial

from fedpace.reproduce.cell import Cell
from fedpace.reproduce.comparison import above, final_accuracy
from fedpace.reproduce.experiment import Procedure, Table, compared, reproduction
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid
from fedpace.reproduce.two_way import cells as two_way_cells
from fedpace.reproduce.two_way import cnn
from fedpace.reproduce.two_way import tuned as two_way_tuned
from fedpace.reproduce.two_way.bits_notes import QUICK
from fedpace.reproduce.two_way.bits_pictures import pictures
from fedpace.reproduce.two_way.cells import BASELINES, LAST, METHODS, SUGGESTED, DataSplit, name_of, where
from fedpace.reproduce.two_way.findings import findings
from fedpace.reproduce.two_way.firing import fired
from fedpace.reproduce.two_way.tuned import EVERYWHERE, TUNED, WITH_A_CNN, short, short_lengths, tuned


def cells(edition: str, known: Results) -> list[Cell]:
    small = cnn.cells(known) if edition == "quick" else []
    return [*two_way_cells.cells(edition, known), *two_way_tuned.cells(edition, known), *small]


def grids(edition: str) -> list[Grid]:
    small = cnn.grids() if edition == "quick" else []
    return [*two_way_cells.grids(edition), *two_way_tuned.grids(edition), *small]


def tables(edition: str, results: Results) -> list[Table]:
    return [*_what_aa_adds(results), *_places(results)]


def _what_aa_adds(results: Results) -> list[Table]:
    """Both with top-k at 1/8 both ways, each tuned; NLA hardly ever fires with it."""
    aa, nla = "FedBACA 1/8", "FedBNLACA 1/8"
    rows = [
        (where(place), *_difference(results, tuned(place, aa), tuned(place, nla)))
        for place in EVERYWHERE
        if results.have(tuned(place, aa), tuned(place, nla))
    ]
    header = ("", "FedBACA less FedBNLACA, points", "95 % interval", "p", "AA fired", "NLA fired")
    return [Table("What AA adds to compression both ways", header, rows)] if rows else []


def _difference(results: Results, aa: str, nla: str) -> tuple[str, ...]:
    pairs = above(results, aa, nla, final_accuracy(LAST))
    p = "" if pairs.p is None else f"{pairs.p:.2f}"
    between = "" if pairs.interval is None else "{:+.2f} to {:+.2f}".format(*pairs.interval)
    rates = (f"{results.spread(name, fired).mean:.1%}" for name in (aa, nla))
    return f"{pairs.difference.mean:+.2f}", between, p, *rates


def _places(results: Results) -> list[Table]:
    return [
        Table(
            where(place),
            (
                "",
                "accuracy %",
                "up MB",
                "down MB",
                "nominal Mbit up",
                "nominal Mbit down",
                "fired up",
                "fired down",
            ),
            [_line(results, m, name) for m, name in _ran(results, place).items()],
        )
        for place in (*EVERYWHERE, *WITH_A_CNN)
        if _ran(results, place)
    ]


def _ran(results: Results, place: DataSplit) -> dict[str, str]:
    """The cells of a place by their labels."""
    plain = {m: name_of(place, m) for m in (*BASELINES, *METHODS, SUGGESTED)}
    every = plain | {f"{m}, tuned": tuned(place, m) for m in TUNED}
    every |= {
        f"{m}, tuned for {rounds} rounds": short(place, m, rounds)
        for m in TUNED
        for rounds in short_lengths(place, m)
    }
    return {label: name for label, name in every.items() if results.have(name)}


def _line(results: Results, method: str, name: str) -> tuple[str, ...]:
    bits = [results.spread(name, partial(_nominal, side=side)).mean for side in ("up", "down")]
    return (
        method,
        f"{results.final(name, last=LAST):.2f}",
        *(f"{results.spread(name, partial(_sent, side=side)).mean:.2f}" for side in ("up", "down")),
        *(f"{value:.1f}" for value in bits),
        *(f"{results.spread(name, partial(_fired, side=side)).mean:.1%}" for side in ("up", "down")),
    )


def _fired(outcome: Outcome, side: str) -> float:
    """How often a lazy rule acted, of the frames of one direction."""
    return outcome.traffic[side].get("firing_rate", 0.0)


def _sent(outcome: Outcome, side: str) -> float:
    """Megabytes until the end."""
    return float(getattr(outcome, f"bytes_{side}")) / 1e6


def _nominal(outcome: Outcome, side: str) -> float:
    """Megabits as papers count them: 32 per value, and the positions."""
    return (outcome.traffic[side]["value_bits"] + outcome.traffic[side]["index_bits"]) / 1e6


_COMMON = compared(
    """
    network | MLP and CNN, sizes not given; the text describes the CNN's figures | MLP 784-64-10 (50,890 parameters)
    split | iid; non-iid, scheme not given | iid; sorted by label, two shards per client
    compression | top-k 1/8 and 1/128 | top-k 1/8, 1/32 and 1/128
    first model of a client | compressed like any other (Algorithm 2) | sent whole, by every method
    rates, moments, thresholds | not given
        | local 0.05; server rate: the best in a small grid for each baseline, FedAMS's for its relatives; 0.9, 0.99,
        1e-3; tau 0.5 (NLA), 0.3 (AA); `tuned`: the best server rate, eps 1e-3 or 1e-7, b1 0.9 or 0 and threshold, for
        each method and split, on Fashion-MNIST with half of the clients; rivals also for short runs. Grids are run
        on seeds of their own where tuning.json has the choice, else on the first seed
    bits | not defined | real bytes of the frames; nominal: 32 bits per value plus positions
    reading | left open whether the receiver holds the value that is compared and reused | it holds it
    """
)

EXPERIMENT = reproduction(
    "two-way-bits",
    """
    Accuracy against bytes, both ways

    "Bidirectional communication-efficient non-convex adaptive federated learning": Figures 1 to 20

    Six algorithms that skip, repeat or compress what they send, against FedAvg, FedAdam, FedAMS and FedCAMS,
    and our own two_way. NLA skips an upload that changed little, and the server uses the last one again; AA adds the
    previous update to one that agrees with it. FedNLAA and FedAA send whole updates, FedNLACA and FedACA compress
    uploads, FedBNLACA and FedBACA both directions. The figures are not in the available text, only what they are said
    to show; traffic here is counted in real bytes, and the paper's claims are judged at equal bytes.
    """,
    Procedure(cells, findings, tables, pictures, grids),
    {
        "quick": (
            *compared(
                """
                data | MNIST and Fashion-MNIST, 100 clients, 50 in a round and all
                    | the same data, 20 clients, 10 in a round, all with `tuned` settings; on MNIST fewer methods
                local work | 3 epochs, batch 32 | 20 steps, batch 32
                rounds | not given | 60; with the CNN 40
                CNN | not described
                    | 5x5 convolutions of 8 and 16 channels, 128 units (37,610 parameters); server rate, eps and AA's
                    threshold tuned on one seed, at every place; uncompressed methods for seven rounds likewise, for
                    all rounds on Fashion-MNIST with half of the clients; b1 and NLA's threshold as the MLP's grids
                    chose them; on iid data FedBACA alone
                """
            ),
            *_COMMON,
        ),
        "full": (
            *compared(
                """
                data | MNIST and Fashion-MNIST, 100 clients, 50 in a round | the same
                local work | 3 epochs, batch 32 | the same
                rounds | not given | 100
                """
            ),
            *_COMMON,
        ),
    },
    notes={"quick": QUICK},
)
