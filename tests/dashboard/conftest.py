"""Two servers for all tests here: to start one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.dashboard.serving import TOKEN, Server, ended, ready, started


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """One that anybody here may read, and a private one with a generated token: started side by side."""
    folder = tmp_path_factory.mktemp("ui")
    (folder / "experiments").mkdir()
    options = ["--token", TOKEN, "--experiments", str(folder / "experiments")]
    both = started(folder / "open", *options), started(folder / "private", "--private")
    try:
        yield ready(both[0]), ready(both[1])
    finally:
        for server in both:
            ended(server)


@pytest.fixture(scope="session")
def ui(servers: tuple[Server, Server]) -> Server:
    return servers[0]


@pytest.fixture(scope="session")
def private(servers: tuple[Server, Server]) -> Server:
    return servers[1]
