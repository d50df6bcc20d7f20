"""Two thousand faults of eleven kinds over every pacing, on real processes; what was seen is in faults.json."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.campaign import KINDS, Campaign

PACINGS = (
    "scaffold",
    "autonomous_fedgm",
    "fedbuff",
    "fedasync",
    "defedavg_iid",
    "defedavg_niid",
    "favano",
    "quafl",
)
RECORD = Path(__file__).with_name("faults.json")  # what the test saw when it made most faults


@pytest.mark.long
def test_two_thousand_faults(tmp_path: Path) -> None:
    """One fault of each kind in every run; runs take the pacings in turn.

    FEDPACE_FAULTS: how many. FEDPACE_FAULTS_LOG: a file that gets a line for every run that is done; if the test is
    interrupted and started again with the same file, it does those that are left.
    """
    wanted = int(os.environ.get("FEDPACE_FAULTS", "2000"))
    log = Path(os.environ.get("FEDPACE_FAULTS_LOG", tmp_path / "faults.log"))
    rows = read(log)
    for number in range(len(rows), math.ceil(wanted / len(KINDS))):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows.append(Campaign(folder, PACINGS[number % len(PACINGS)], number).run())
        with log.open("a") as file:
            file.write(f"{json.dumps(rows[-1])}\n")
    table = summary(rows)
    if table["faults"] >= json.loads(RECORD.read_text())["faults"]:
        RECORD.write_text(json.dumps(table, indent=1) + "\n")
    assert table["faults"] >= wanted


def test_the_table_adds_up() -> None:
    table = json.loads(RECORD.read_text())
    assert table["faults"] == sum(table["of each kind"].values())
    assert table["faults"] == sum(pacing["faults"] for pacing in table["pacings"].values())
    assert set(table["of each kind"]) == set(KINDS) and set(table["pacings"]) <= set(PACINGS)
    assert table["lost"] == table["different"] == 0


def read(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    kinds: Counter[str] = sum((Counter(row["faults"]) for row in rows), Counter())
    pacings: dict[str, Counter[str]] = {}
    for row in rows:
        known = {name: row[name] for name in ("steps", "updates", "resynchronised", "malformed")}
        pacings.setdefault(row["pacing"], Counter()).update(
            {"runs": 1, "faults": sum(row["faults"].values())} | known
        )
    return {
        "faults": kinds.total(),
        "lost": sum(row["lost"] for row in rows),
        "different": sum(row["different"] for row in rows),
        "of each kind": dict(kinds),
        "pacings": {name: dict(counts) for name, counts in pacings.items()},
    }
