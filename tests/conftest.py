"""What holds for every test."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

slow = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # a busy machine is no failure
settings.register_profile("same", **slow, derandomize=True)
settings.register_profile("new", **slow)


def pytest_configure(config: pytest.Config) -> None:
    """The same examples every time; new ones where everything is run (`./scripts/test --all`)."""
    settings.load_profile("same" if config.option.markexpr else "new")


def pytest_collection_finish() -> None:
    _freeze_heap()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="module")
def frozen_heap() -> Iterator[None]:
    """Garbage collections in the next module skip what this one leaves behind, such as caches."""
    yield
    _freeze_heap()


def _freeze_heap() -> None:
    """Ten thousand collected tests are millions of objects: each full collection would take two seconds."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the run store of whoever runs the tests."""
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("FEDPACE_STORE", raising=False)


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are as wide as in a log file, whatever terminal the tests were started from."""
    monkeypatch.delenv("COLUMNS", raising=False)
