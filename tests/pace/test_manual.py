"""The page on pacing: its programs run and do what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "pace.md"


def names_after(headline: str) -> dict[str, Any]:
    """What the Python blocks of one section define, run in order as one program."""
    section = PAGE.read_text().partition(f"\n## {headline}\n")[2].partition("\n## ")[0]
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(compile(block, PAGE.name, "exec", dont_inherit=True), names)
    return names


def test_the_rule_of_ones_own_keeps_its_promises_and_runs() -> None:
    names = names_after("Your own rule")
    assert len(names["run"].history) == 20
    assert names["run"].virtual_seconds == 40.0  # a step every two seconds


def test_the_devices_of_the_page_can_be_made() -> None:
    assert "Population" in names_after("Devices")
