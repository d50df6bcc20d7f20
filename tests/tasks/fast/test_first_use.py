"""Compilation is said once, on a terminal, and not where the machine code is at hand."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedpace.tasks.fast import first_use


def function(folder: Path, *, compiled: bool = False) -> Any:
    source = folder / "loops.py"
    source.touch()
    code = SimpleNamespace(co_filename=str(source))
    inner = SimpleNamespace(__code__=code, __qualname__="descend")
    cache = SimpleNamespace(cache_path=str(folder))
    return SimpleNamespace(py_func=inner, _cache=cache, signatures=[()] if compiled else [])


def said(made: Any, capsys: pytest.CaptureFixture[str]) -> list[str]:
    with first_use.announced(made, seconds=10):
        pass
    return capsys.readouterr().err.splitlines()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_use, "on_terminal", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_the_first_time_has_a_line_with_its_end_in_sight(tmp_path: Path, capsys: Any) -> None:
    assert said(function(tmp_path), capsys) == [
        "compiling local steps for this machine, once: about 10 s ...",
        "... compiled, and cached for later runs",
    ]
    assert said(function(tmp_path, compiled=True), capsys) == []


@pytest.mark.usefixtures("terminal")
def test_machine_code_counts_while_it_is_newer_than_its_source(tmp_path: Path, capsys: Any) -> None:
    made = function(tmp_path)
    index = tmp_path / "loops.descend-24.py311.nbi"
    index.touch()
    assert said(made, capsys) == []
    os.utime(index, (1, 1))
    assert len(said(made, capsys)) == 2


def test_a_log_is_left_alone(tmp_path: Path, capsys: Any) -> None:
    assert said(function(tmp_path), capsys) == []


@pytest.mark.usefixtures("terminal")
def test_only_what_is_missing_takes_time(tmp_path: Path, capsys: Any) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    with first_use.announced(function(here), function(there), function(here, compiled=True), seconds=4):
        pass
    assert "about 8 s" in capsys.readouterr().err
