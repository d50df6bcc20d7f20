"""The claim of the manual about `two_way`, as the commands that it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

WHERE = "--task digits --clients 20 --partition iid --rounds 120 --quiet --seed"


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_way_is_within_a_point_of_fedams_at_a_tenth_of_its_bytes(
    fedpace: Any, tmp_path: Path, seed: int
) -> None:
    """docs/link.md: both methods with their defaults."""
    final = {}
    for name in ("two_way", "fedams"):
        made = fedpace("run", name, *WHERE.split(), seed, "--json", tmp_path / f"{name}.json")
        assert made.code == 0, made.err
        final[name] = json.loads((tmp_path / f"{name}.json").read_text())["final"]
    ours, whole = final["two_way"], final["fedams"]
    assert ours["accuracy"] >= whole["accuracy"] - 0.01
    for way in ("bytes_up", "bytes_down"):
        assert ours[way] <= whole[way] / 10
