"""The walk of an update in the manual: traced, and compared with the page."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType

import fedpace
from fedpace import algorithms
from fedpace.compute import engine
from fedpace.sim.prepare import prepare

SOURCE = Path(fedpace.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "walk.md"
FOLDERS = {"aggregate", "client", "link", "pace", "server", "server_opt"}  # local training is the task's own
ONE_PAGE = 60  # lines

Calls = set[tuple[str, str]]  # (file, function)


def walk() -> str:
    """The numbered steps of the page."""
    return "\n".join(re.findall(r"^\d+\. .*(?:\n {3,}\S.*)*", PAGE.read_text(), re.MULTILINE))


def named() -> Calls:
    """Functions belong to the last file named before them."""
    found, file = set(), ""
    for text in re.findall(r"`([^`]+)`", walk()):
        if text.endswith(".py"):
            file = text
        elif text[0].islower() or "." in text:
            found.add((file, text))
    return found


def calls_during(action: Callable[[], object]) -> Calls:
    seen: Calls = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        path = Path(code.co_filename)
        if event == "call" and SOURCE in path.parents:
            seen.add((path.relative_to(SOURCE).as_posix(), code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return seen


@cache
def called() -> Calls:
    """What two rounds of fedavg call, without what sets them up."""
    task = fedpace.tasks.quadratics([1.0, 2.0, 3.0, 4.0])
    fedavg = algorithms.fedavg(client_lr=0.1, steps=2, batch_size=None, clients_per_round=2)
    simulation = prepare(fedavg, task, None, engine("inline", task), rounds=2)
    simulation.begin()
    return calls_during(lambda: simulation.run(2))


def test_every_function_of_the_walk_is_called() -> None:
    assert named() - called() == set()


def test_every_file_an_update_crosses_is_in_the_walk() -> None:
    crossed = {file for file, _ in called() if file.split("/")[0] in FOLDERS}
    assert crossed - {file for file, _ in named()} == set()


def test_every_file_the_page_names_exists() -> None:
    files = re.findall(r"`(\w+/[\w/]+\.py)`", PAGE.read_text())
    roots = (SOURCE, PAGE.parents[1])
    assert [file for file in files if not any((root / file).exists() for root in roots)] == []


def test_the_walk_fits_one_page() -> None:
    assert len(PAGE.read_text().splitlines()) <= ONE_PAGE
