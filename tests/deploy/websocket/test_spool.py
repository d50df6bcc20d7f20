from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from deploy.pairs import SMALL
from fedpace.deploy.websocket.limits import MESSAGE_OVERHEAD
from fedpace.deploy.websocket.spool import Spool
from fedpace.errors import StorageError

LARGE = SMALL.spool_above + 1


def test_small_messages_stay_in_memory_and_large_ones_go_to_disk(tmp_path: Path) -> None:
    spool = Spool(SMALL, tmp_path)
    small, large = spool.open(0, SMALL.spool_above), spool.open(0, LARGE)
    assert small is not None and large is not None
    assert spool.memory.lent == SMALL.spool_above + MESSAGE_OVERHEAD and spool.disk.lent == LARGE
    large.append(memoryview(b"x" * (LARGE - 1)))
    large.append(memoryview(b"y"))
    assert large.whole() == b"x" * (LARGE - 1) + b"y"
    small.release()
    large.release()
    large.release()
    assert spool.memory.lent == spool.disk.lent == 0


def test_the_spool_leaves_no_file_behind(tmp_path: Path) -> None:
    body = Spool(SMALL, tmp_path).open(0, LARGE)
    assert body is not None
    body.append(memoryview(bytes(LARGE)))
    assert os.listdir(tmp_path) == []  # the file has no name: it vanishes with the process
    body.discard()


def test_the_cap_is_kept(tmp_path: Path) -> None:
    spool = Spool(SMALL, tmp_path)
    first = spool.open(0, SMALL.spool_total)
    assert first is not None and spool.open(1, LARGE) is None
    first.discard()
    second = spool.open(1, LARGE)
    assert second is not None
    second.discard()


def test_space_that_comes_back_is_told(tmp_path: Path) -> None:
    told = []
    spool = Spool(SMALL, tmp_path, lambda: told.append(spool.disk.lent))
    body = spool.open(0, LARGE)
    assert body is not None
    body.discard()
    assert told == [0]


def test_without_a_folder_a_largest_message_fits_in_memory() -> None:
    spool = Spool(SMALL, None)
    assert spool.open(0, SMALL.message_bytes) is not None


def test_a_folder_that_is_gone_is_an_error_and_lends_nothing(tmp_path: Path) -> None:
    spool = Spool(SMALL, tmp_path / "gone")
    with pytest.raises(StorageError, match="spool folder"):
        spool.open(0, LARGE)
    assert spool.disk.lent == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = open("/dev/full", "r+b", buffering=0)  # noqa: SIM115
    monkeypatch.setattr("tempfile.TemporaryFile", lambda dir: full)
    spool = Spool(SMALL, tmp_path)
    body = spool.open(0, LARGE)
    assert body is not None
    with pytest.raises(StorageError, match="No space left"):
        body.append(memoryview(bytes(10)))
    body.discard()
    gc.collect()
    assert spool.disk.lent == 0
