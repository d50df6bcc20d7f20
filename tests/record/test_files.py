from __future__ import annotations

import os

import pytest

from fedpace.disk import files
from fedpace.errors import ConfigError


def test_write_replaces_the_whole_file_and_leaves_nothing_beside_it(tmp_path) -> None:
    target = tmp_path / "run.json"
    target.write_bytes(b"a much longer earlier content")
    files.write(target, b"new")
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["run.json"]


def test_a_failed_write_leaves_the_earlier_file_and_no_rest(tmp_path, monkeypatch) -> None:
    target = tmp_path / "run.json"
    target.write_bytes(b"earlier")

    def full_disk(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        files.write(target, b"new")
    assert target.read_bytes() == b"earlier"
    assert os.listdir(tmp_path) == ["run.json"]


def test_write_through_a_symbolic_link_keeps_the_link(tmp_path) -> None:
    link = tmp_path / "latest.json"
    link.symlink_to(tmp_path / "real.json")
    files.write(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "real.json").read_bytes() == b"new"


def test_new_files_get_the_permissions_the_umask_leaves(tmp_path) -> None:
    (tmp_path / "plain").touch()
    files.write(tmp_path / "written", b"")
    assert (tmp_path / "written").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_device_is_written_to_and_stays_a_device() -> None:
    files.require_writable("/dev/null", "--json")
    files.write("/dev/null", b"gone")
    assert not os.path.isfile("/dev/null")


def test_require_writable_leaves_no_file_behind(tmp_path) -> None:
    assert files.require_writable(tmp_path / "new.json", "--json") == tmp_path / "new.json"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("place", "why"), [("missing/run.json", "No such file"), ("", "it is a folder")])
def test_require_writable_says_why_not(tmp_path, place: str, why: str) -> None:
    path = tmp_path / place
    with pytest.raises(ConfigError) as error:
        files.require_writable(path, "--json")
    assert str(error.value).startswith(f"--json must be a file that can be written ({why}")
    assert str(error.value).endswith(f"; got {str(path)!r}")


def test_a_file_is_no_folder_to_write_into(tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="Not a directory"):
        files.require_writable(tmp_path / "file" / "run.json", "--json")
