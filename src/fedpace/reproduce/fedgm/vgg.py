"""FedGM, Figure 3, in a small edition: FedAvg, FedAvgM and FedGM with a narrow VGG on CIFAR-10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fedpace.reproduce import pictures as draw
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.comparison import Comparison, above, final_accuracy, training_loss
from fedpace.reproduce.experiment import Finding, Table, not_run
from fedpace.reproduce.fedgm.setting import FedGMScale, family_rule
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import Grid
from fedpace.reproduce.tuning import final_accuracy as tuned_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# the paper's data and local rate; VGG-11 with an eighth of its channels, normalised as the full edition's ResNet is
SCALE = FedGMScale("cifar10", "vgg11_gn:8", client_lr=0.01, batch_size=50, rounds=60, evaluate_every=10)
# cut until tuning takes about an hour of a core: 30 rounds, on one seed
GRID_ROUNDS, GRID_SEEDS = 30, (1000,)
RATES = (0.5, 1.0, 2.0, 3.0)
# cut to the momenta that the grid of the small network chose at one of its two splits; FedAvgM has two as well
SETTINGS = {
    "FedAvg": ("",),
    "FedAvgM": (" beta 0.7", " beta 0.9"),
    "FedGM": (" beta 0.9 nu 0.7", " beta 0.95 nu 0.9"),
}
LAST = 3  # evaluations whose mean is a run's accuracy
CLAIM = "with a small VGG on CIFAR-10: FedGM above FedAvgM and FedAvg in test accuracy, below them in training loss"
FIGURE = "Figure 3: FedGM best in both"


def cells(known: Results) -> list[Cell]:
    """The grid on the first seed; then the best of each method for every seed."""
    every = grids()
    chosen = [(grid.name, cell) for grid in every if (cell := grid.chosen(known)) is not None]
    return [
        *(cell for grid in every for cell in grid.cells()),
        *(
            replace(cell, name=name, rounds=SCALE.rounds, seeds=None, training_loss=True)
            for name, cell in chosen
        ),
    ]


def grids() -> list[Grid]:
    return [_grid(method) for method in SETTINGS]


def _grid(method: str) -> Grid:
    def cell(eta: float, momenta: str) -> Cell:
        return Cell(
            name=f"grid small VGG {method} rate {eta:g}{momenta}",
            algorithm=family_rule(method, eta, momenta, SCALE.work),
            task=SCALE.task(),
            rounds=GRID_ROUNDS,
            evaluate_every=SCALE.evaluate_every,
            by_name=True,
            seeds=1,
        )

    return Grid(best(method), RATES, cell, tuned_accuracy(1), SETTINGS[method], seeds=GRID_SEEDS)


def best(method: str) -> str:
    return f"best {method}, small VGG"


def _ran(results: Results) -> bool:
    return results.have(*(best(method) for method in SETTINGS))


def finding(results: Results) -> Finding:
    if not _ran(results):
        return not_run(CLAIM, FIGURE, "its cells are declared (`small VGG`); they take hours.")
    names = {method: best(method) for method in SETTINGS}
    ends = {m: (results.final(n, last=LAST), results.spread(n, training_loss())) for m, n in names.items()}
    ours = ", ".join(
        f"{method} {accuracy:.2f} %, loss {loss:.3f}" for method, (accuracy, loss) in ends.items()
    )
    others = [name for method, name in names.items() if method != "FedGM"]
    comparisons = (
        *(above(results, names["FedGM"], name, final_accuracy(LAST)) for name in others),
        *(
            above(results, name, names["FedGM"], training_loss(), f"training loss of {name} above FedGM's")
            for name in others
        ),
    )
    return Finding(
        CLAIM, FIGURE, ours, note=_one_by_one(comparisons), comparisons=comparisons, family="Figure 3"
    )


def _one_by_one(comparisons: Sequence[Comparison]) -> str:
    """All of them make the claim: the note says which hold."""
    told = (
        f"{one.what} {one.difference.mean:+.3g}" + ("" if one.p is None else f" (p {one.p:.2g})")
        for one in comparisons
    )
    return f"one by one: {'; '.join(told)}. Settings were tuned in {GRID_ROUNDS} rounds on one seed."


def tables(results: Results) -> list[Table]:
    if not _ran(results):
        return []
    rows = [
        (
            method,
            _chosen(method, results),
            f"{results.final(best(method), last=LAST):.2f}",
            f"{results.spread(best(method), training_loss()):.4f}",
        )
        for method in SETTINGS
    ]
    return [Table("Small VGG, CIFAR-10", ("", "setting", "test accuracy %", "training loss"), rows)]


def _chosen(method: str, results: Results) -> str:
    cell = _grid(method).chosen(results)
    return "" if cell is None else cell.name.removeprefix(f"grid small VGG {method} ")


def pictures(results: Results) -> Mapping[str, Figure]:
    """Figure 3 (b), once it was run."""
    if not _ran(results):
        return {}
    with draw.style():
        figure, ((axes,),) = draw.sheet(1, width=5.0)
        draw.curves(axes, results, {method: best(method) for method in SETTINGS}, smooth=2)
        draw.titled(axes, "Small VGG, CIFAR-10", "server steps", "test accuracy, %", "lower right")
    return {"vgg": figure}
