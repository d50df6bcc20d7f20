"""The code of the manual's pages about own rules and comparing runs as it is printed."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def run(page: str) -> dict[str, object]:
    """All Python blocks of a page, one after another, in a module of their own; its names."""
    module = ModuleType(page.removesuffix(".md").replace("-", "_"))
    sys.modules[module.__name__] = module
    try:
        for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL):
            exec(compile(block, page, "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return module.__dict__


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_every_kind_of_rule_is_checked_and_all_run_together() -> None:
    names = run("own-rule.md")
    page = (DOCS / "own-rule.md").read_text()
    kinds = re.findall(r"\| `(check_\w+)` \|", page)
    assert len(kinds) == 9 and all(f"{kind}(" in page for kind in kinds)
    assert names["run"].metrics["accuracy"] > 0.6
    assert list(names["study"].rows) == ["mine", "FedAvg"]


def test_comparing(tmp_path) -> None:
    names = run("comparing.md")
    assert names["study"].seeds == [0, 1, 2] and (tmp_path / "page.html").exists()
