"""A stage per test module: Flower's processes take seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("flwr", reason="runs in .venv-flower, which ./scripts/test --all makes")

from tests.flower.stage import Stage  # noqa: E402


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
