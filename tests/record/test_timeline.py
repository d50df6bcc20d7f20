from __future__ import annotations

import pytest
from matplotlib.colors import to_hex

from fedpace.errors import ConfigError
from fedpace.record import Run
from fedpace.record.report.gantt import LINKS, PENDING, TRAIN, WASTED, gantt
from fedpace.record.run import timeline
from fedpace.record.run.timeline import Stretch
from fedpace.record.run.usage import staleness_of_all


def test_gaps_are_waiting_before_an_upload_and_idling_otherwise(run: Run) -> None:
    assert run.timeline() == [
        Stretch(-1, 1.5, 1.5, "step", 1),
        Stretch(-1, 3.0, 3.0, "step", 2),
        Stretch(-1, 4.5, 4.5, "step", 3),
        Stretch(0, 0.0, 3.0, "train", 0, 1, "pending"),
        Stretch(0, 3.0, 4.5, "idle"),
        Stretch(1, 0.0, 0.5, "idle"),
        Stretch(1, 0.5, 1.0, "train", 0, 1, "overwritten"),
        Stretch(1, 1.0, 2.0, "train", 1, 2, "consumed", 3),
        Stretch(1, 2.0, 3.0, "wait"),
        Stretch(1, 3.0, 4.0, "upload", 1, 2, "consumed", 3),
        Stretch(1, 4.0, 4.5, "idle"),
    ]


def test_each_client_has_a_stretch_for_every_moment(run: Run) -> None:
    for client in (0, 1):
        own = [row for row in run.timeline() if row.client == client]
        assert own[0].start == 0.0 and own[-1].end == run.virtual_seconds
        assert all(before.end == after.start for before, after in zip(own, own[1:], strict=False))


@pytest.mark.parametrize("name", ["t.csv", "t.json"])
def test_what_was_written_is_read_back(run: Run, tmp_path, name: str) -> None:
    timeline.write(run.timeline(), tmp_path / name)
    assert timeline.read(tmp_path / name) == run.timeline()


@pytest.mark.parametrize("content", ["", "client,start\n1,2\n", "client,start,end,kind\n0,0,1,sleep\n"])
def test_a_file_that_is_no_timeline_is_refused(tmp_path, content: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(ConfigError, match="timeline must be a file that --timeline wrote"):
        timeline.read(path)


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"No such file.*missing\.csv"):
        timeline.read(tmp_path / "missing.csv")


def test_gantt_has_a_colour_for_what_became_of_the_work_and_a_line_for_every_step(run: Run) -> None:
    [axes] = gantt(run.timeline()).axes
    colours = {to_hex(collection.get_facecolor()[0]).upper() for collection in axes.collections}
    assert colours == {TRAIN, WASTED, PENDING, LINKS["wait"], LINKS["upload"]}  # idling is left blank
    assert [line.get_xdata()[0] for line in axes.lines] == [1.5, 3.0, 4.5]
    assert [text.get_text() for text in axes.texts] == ["0", "0", "1"]  # the model of each training


def test_gantt_of_many_steps_has_no_lines() -> None:
    steps = [Stretch(-1, float(t), float(t), "step", t) for t in range(1, 500)]
    [axes] = gantt([*steps, Stretch(0, 0.0, 499.0, "train", 0, 1, "pending")]).axes
    assert not axes.lines


def test_usage_adds_up(run: Run) -> None:
    first, second = run.clients()
    assert (first.busy, first.used, first.wasted, first.pending) == (3.0 / 4.5, 0, 0, 1)
    assert (second.busy, second.sending, second.used, second.wasted) == (1.5 / 4.5, 1.0 / 4.5, 1, 1)
    assert (second.staleness, second.mean_staleness, second.max_staleness) == (
        {1: 1},
        1.0,
        1,
    )  # model 1, used by step 3
    assert (first.mean_staleness, first.max_staleness) == (0.0, 0)
    assert staleness_of_all(run.clients()) == {1: 1}


def test_gantt_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one activity"):
        gantt([])
