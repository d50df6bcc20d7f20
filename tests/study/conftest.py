from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch) -> None:
    """Runs are saved away from those of whoever runs the tests."""
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path_factory.mktemp("home")))
