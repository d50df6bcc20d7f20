"""`fedpace.sweep`: points of a grid, ranked."""

from __future__ import annotations

import pytest

import fedpace
from fedpace.algorithms import fedavg
from fedpace.errors import ConfigError
from fedpace.record.store.store import Store
from fedpace.sim.simulation import Simulation

TASK = fedpace.tasks.quadratics([[0.0], [2.0], [4.0]], initial=[5.0])
GRID = {"client_lr": [0.1, 0.5], "server_lr": [1.0, 0.5]}
FIXED = {"steps": 1, "batch_size": None}


def loss_after(steps: int, rate: float) -> float:
    """Gradient descent on (x - 2)^2 / 2 + 4/3 from x = 5."""
    return (3.0 * (1 - rate) ** steps) ** 2 / 2 + 4 / 3


def swept(**more) -> fedpace.Study:
    return fedpace.sweep(fedavg, TASK, grid=GRID, fixed=FIXED, rounds=4, **more)


def test_points_are_ranked_by_the_metric() -> None:
    found = swept(seeds=2)
    rates = {(p.settings["client_lr"], p.settings["server_lr"]): p.mean for p in found.points}
    assert (
        rates == {pair: pytest.approx(loss_after(4, pair[0] * pair[1])) for pair in rates} and len(rates) == 4
    )
    assert found.best == {"client_lr": 0.5, "server_lr": 1.0}
    assert [line.split()[:2] for line in found.table().splitlines()[2:4]] == [["0.5", "1.0"], ["0.5", "0.5"]]
    assert list(found.rows)[0] == "client_lr=0.1, server_lr=1.0" and len(found.rows) == 4


def test_results_do_not_depend_on_the_workers_and_are_saved(monkeypatch) -> None:
    first = swept(seeds=2, workers=2, store="grid")
    assert len(Store().entries()) == 8
    assert all(entry.name.startswith("grid/client_lr-0.") for entry in Store().entries())
    assert first.table() == swept(seeds=2).table()
    monkeypatch.setattr(Simulation, "begin", None)  # nothing is run again
    assert swept(seeds=2, store="grid").to_csv() == first.to_csv()


def test_a_run_that_explodes_is_stopped_and_its_point_comes_last() -> None:
    found = fedpace.sweep(
        fedavg, TASK, grid={"client_lr": [30.0, 0.1]}, fixed=FIXED, rounds=9, seeds=2, metric="loss"
    )
    failed = found.ranked[-1]
    assert failed.settings == {"client_lr": 30.0} and failed.states == [
        "stopped"
    ]  # the second seed was not run
    assert found.best == {"client_lr": 0.1}


def test_a_search_samples_the_grid() -> None:
    pytest.importorskip("optuna")
    found = swept(search="tpe", trials=6)
    assert len(found.points) == 6 and found.best["client_lr"] == 0.5
    assert [p.settings for p in swept(search="tpe", trials=6).points] == [p.settings for p in found.points]


def test_a_search_without_optuna_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(ConfigError, match="needs Optuna: pip install"):
        swept(search="tpe")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"grid": {}}, "grid must be values by parameter"),
        ({"grid": {"steps": [1]}}, "steps must be in the grid or fixed"),
        ({"grid": {"client_lr": [0.1, -1.0]}}, "client_lr must be > 0"),
        ({"search": "random"}, "search must be one of grid, tpe"),
        ({"metric": "accuracy"}, "metric must be one of distance, loss"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(more: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fedpace.sweep(fedavg, TASK, **{"grid": GRID, "fixed": FIXED, "rounds": 2, **more})
