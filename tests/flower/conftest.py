"""A stage per test module: Flower's processes take seconds to start."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from tests.flower.stage import Stage

if importlib.util.find_spec("flwr") is None:  # they run in .venv-flower, which ./scripts/test --all makes
    collect_ignore_glob = ["test_*.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Flower's own imports warn of what its libraries will drop."""
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning")


@pytest.fixture
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("stage"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("stage"))
    yield made
    made.close()
