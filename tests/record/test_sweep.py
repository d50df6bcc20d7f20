"""Grids, what is best on them, and when to give up."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedpace.errors import Stop
from fedpace.sim.observer import StepRecord
from fedpace.study.sweep import Everything, Hopeless, Point, best_first, picture

X = np.zeros(1)
GRID = {"lr": [0.1, 0.2, 0.4], "beta": [0.0, 0.9]}


def asked(grid: dict[str, list[float]]) -> list[dict[str, float]]:
    sampler = Everything(grid)
    points = []
    while (settings := sampler.ask()) is not None:
        points.append(dict(settings))
    assert len(points) == sampler.trials
    return points


def test_every_combination_is_asked_for_once() -> None:
    points = asked(GRID)
    assert points[:3] == [{"lr": 0.1, "beta": 0.0}, {"lr": 0.1, "beta": 0.9}, {"lr": 0.2, "beta": 0.0}]
    assert len({tuple(point.items()) for point in points}) == 6


def test_the_best_come_first_and_the_diverged_last() -> None:
    low, high = Point({"lr": 1}, [0.25], ["done"]), Point({"lr": 2}, [0.5, 1.0], ["done", "done"])
    failed = Point({"lr": 3}, [0.9], ["done", "diverged"])
    assert best_first([failed, low, high], "accuracy") == [high, low, failed]
    assert best_first([failed, low, high], "loss") == [low, high, failed]
    assert (high.mean, high.spread, low.spread) == (0.75, pytest.approx(0.125**0.5), None)
    assert math.isnan(failed.mean)


def losses(*values: float | None, factor: float = 10.0) -> int | None:
    """The step after which a run with these losses is stopped; None if it is not."""
    hopeless = Hopeless(factor)
    for version, loss in enumerate(values, start=1):
        metrics = {"accuracy": 0.1} if loss is None else {"loss": loss} if loss >= 0 else {}
        try:
            hopeless.recorded(StepRecord(version, 0.0, (), (), 0, 0, metrics), X)
        except Stop:
            return version
    return None


@pytest.mark.parametrize(
    ("values", "stopped"),
    [
        ((2.0, 1.0, 10.0, 5.0), None),
        ((2.0, 1.0, 10.5, 5.0), 3),
        ((2.0, None), 2),  # evaluated, but the loss was not finite
        ((2.0, -1.0, 19.0), None),  # not evaluated
        ((0.0, 3.0), None),
    ],
)
def test_a_run_is_given_up_when_its_loss_has_exploded(
    values: tuple[float | None, ...], stopped: int | None
) -> None:
    assert losses(*values) == stopped


def test_the_least_loss_is_remembered_over_an_interruption() -> None:
    hopeless = Hopeless(10.0)
    hopeless.resumed([StepRecord(1, 0.0, (), (), 0, 0, {"loss": 1.0}), StepRecord(2, 0.0, (), (), 0, 0)])
    with pytest.raises(Stop, match="after step 3 the loss is 11 and was 1"):
        hopeless.recorded(StepRecord(3, 0.0, (), (), 0, 0, {"loss": 11.0}), X)


def points(grid: dict[str, list[float]]) -> list[Point]:
    return [Point(settings, [float(sum(settings.values()))], ["done"]) for settings in asked(grid)]


def test_two_settings_make_a_heat_map() -> None:
    made = points(GRID)
    made[-1].states = ["diverged"]
    axes = picture(made, GRID, "accuracy", "sweep").axes[0]
    table = np.asarray(axes.get_images()[0].get_array(), float)
    np.testing.assert_allclose(table, [[0.1, 0.2, 0.4], [1.0, 1.1, np.nan]])
    assert [text.get_text() for text in axes.texts] == [
        "0.100",
        "0.200",
        "0.400",
        "1.000",
        "1.100",
        "diverged",
    ]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("lr", "beta")


def test_three_settings_make_one_map_for_each_value_of_the_third() -> None:
    grid = {**GRID, "nu": [0.25, 0.5]}
    *maps, _bar = picture(points(grid), grid, "loss").axes
    assert [axes.get_title() for axes in maps if axes.get_visible()] == ["nu 0.25", "nu 0.5"]


def test_one_setting_makes_a_line() -> None:
    grid = {"lr": [0.1, 0.2]}
    [axes] = picture(points(grid), grid, "accuracy").axes
    assert list(axes.get_lines()[0].get_ydata()) == [0.1, 0.2]
