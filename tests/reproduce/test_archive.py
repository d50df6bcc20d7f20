from __future__ import annotations

import lzma

import pytest

from fedpace.errors import ConfigError
from fedpace.reproduce import archive

from .conftest import cell, outcome, results


def test_an_archive_gives_back_every_run_to_the_bit(tmp_path) -> None:
    runs = {"one": [outcome([0.1, 1 / 3]), outcome([0.2])], "two": [outcome([0.7], training_loss=2 / 7)]}
    path = tmp_path / archive.archive_name("quick")
    archive.write(path, results(runs))
    assert archive.read(path) == {
        archive.run_name(cell(name).key, seed): run
        for name, every in runs.items()
        for seed, run in enumerate(every)
    }


def test_the_same_runs_make_the_same_bytes(tmp_path) -> None:
    made = results({"one": [outcome([0.1])]})
    for name in "ab":
        archive.write(tmp_path / name, made)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_changed_archive_is_read_anew(tmp_path) -> None:
    path = tmp_path / "runs"
    archive.write(path, results({"one": [outcome([0.1])]}))
    assert len(archive.read(path)) == 1
    archive.write(path, results({"one": [outcome([0.1]), outcome([0.2])]}))
    assert len(archive.read(path)) == 2


@pytest.mark.parametrize(
    "content", [b"", b"plain text", lzma.compress(b"[]\n"), lzma.compress(b'{"run": "a", "outcome": {}}\n')]
)
def test_bytes_that_are_no_archive_are_refused(tmp_path, content) -> None:
    path = tmp_path / "runs"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="must be an archive of finished runs"):
        archive.read(path)
