from __future__ import annotations

import pytest

from fedpace.errors import ConfigError
from fedpace.record import Run, timeline
from fedpace.record.gantt import gantt
from fedpace.record.timeline import Stretch


def test_gaps_are_waiting_before_an_upload_and_idling_otherwise(run: Run) -> None:
    assert run.timeline() == [
        Stretch(0, 0.0, 3.0, "train", 0, 1),
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


def test_gantt_draws_training_that_nobody_used_in_another_colour(run: Run) -> None:
    [axes] = gantt(run.timeline()).axes
    colours = {collection.get_facecolor()[0][:3].tobytes() for collection in axes.collections}
    assert len(colours) == 4  # train, wasted train, wait, upload; idling is left blank
    assert axes.get_xlim() == (0, 4.5)


def test_gantt_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one activity"):
        gantt([])
