from __future__ import annotations

from dataclasses import replace

import pytest

from fedpace.errors import ConfigError
from fedpace.record import Run
from fedpace.record.report.plot import curves


def test_the_picture_shows_accuracy_and_loss_against_steps_time_and_traffic(run: Run) -> None:
    axes = run.plot().axes
    assert [a.get_ylabel() for a in axes[::3]] == ["accuracy", "loss"]
    assert [a.get_xlabel() for a in axes[3:]] == [
        "server steps",
        "virtual seconds",
        "B sent, both directions",
    ]
    drawn = [a.lines[0].get_xydata().tolist() for a in axes[:3]]
    assert drawn == [[[1, 0.25], [3, 0.5]], [[1.5, 0.25], [4.5, 0.5]], [[140, 0.25], [420, 0.5]]]


def test_a_task_without_accuracy_gets_one_row(run: Run) -> None:
    history = [replace(record, metrics={"loss": 1.0}) for record in run.history]
    assert [a.get_ylabel() for a in replace(run, history=history).plot().axes] == ["loss", "", ""]


def test_a_loss_over_decades_is_drawn_on_a_logarithmic_scale(run: Run) -> None:
    history = [replace(record, metrics={"loss": 10.0**-record.version}) for record in run.history]
    assert replace(run, history=history).plot().axes[0].get_yscale() == "log"
    assert run.plot().axes[3].get_yscale() == "linear"


def test_several_runs_share_the_axes_under_their_names(run: Run) -> None:
    figure = curves({"a": run, "b": run})
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["a", "b"]


@pytest.mark.parametrize(("name", "begins"), [("p.png", b"\x89PNG"), ("p.pdf", b"%PDF")])
def test_the_ending_decides_the_format(run: Run, tmp_path, name: str, begins: bytes) -> None:
    run.plot(tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_a_run_that_was_never_evaluated_still_has_a_picture(run: Run) -> None:
    history = [replace(record, metrics={}) for record in run.history]
    assert replace(run, history=history).plot().axes[0].get_ylabel() == "loss"


def test_another_ending_is_refused(run: Run, tmp_path) -> None:
    with pytest.raises(
        ConfigError, match=r"picture must be a file that ends in \.png, \.svg, \.pdf; got '.*p\.xyz'"
    ):
        run.plot(tmp_path / "p.xyz")
