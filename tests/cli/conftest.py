from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from fedpace.cli import main


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch) -> None:
    """Runs are kept away from those of whoever runs the tests."""
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def fedpace(capsys) -> Callable[..., Said]:
    """Run a command line in this process: `fedpace("run", "fedgm")`."""

    def call(*words: object) -> Said:
        code = main([str(word) for word in words])
        printed = capsys.readouterr()
        return Said(code, printed.out, printed.err)

    return call
