"""Breakdown points of the study of attacks: by pacing, where a rule expects a number of hostile updates."""

from __future__ import annotations

import pytest

from fedpace.reproduce.own import robustness
from fedpace.reproduce.own.robustness_cells import (
    ATTACKS,
    MEAN,
    PACES,
    SHARES,
    UPDATES,
    breakdown,
    cell_name,
    columns,
    rules,
)
from fedpace.reproduce.own.robustness_page import tables

from .conftest import outcome, results


@pytest.mark.parametrize("pace", PACES)
def test_krums_breakdown_point_is_the_share_of_a_step_that_it_expects(pace: str) -> None:
    """n >= 2 f + 3: 8 of 20 updates, 3 of 10."""
    krum = rules(UPDATES[pace])["Krum"]
    assert UPDATES[pace] in (2 * krum.byzantine + 3, 2 * krum.byzantine + 4)
    assert breakdown(pace)["Krum"] == breakdown(pace)["multi-Krum"] == krum.byzantine / UPDATES[pace]
    assert breakdown(pace)["Krum"] == {"synchronous": 0.4, "buffered": 0.3}[pace]


def everywhere() -> dict[str, list]:
    """Every cell of the quick edition, all alike."""
    attacked = [("", 0.0), *((attack, share) for attack in ATTACKS for share in SHARES["quick"])]
    return {
        cell_name(split, pace, rule, attack, share): [outcome([0.9])] * 3
        for split, pace in columns()
        for rule in rules(20)
        for attack, share in attacked
    }


def test_a_claim_is_about_shares_below_the_point_of_its_pacing() -> None:
    made = results(everywhere())
    for pace, largest in (("synchronous", "0.3"), ("buffered", "0.2")):
        found = robustness._survives("quick", made, "iid", pace)
        shares = {
            one.what.partition(" above")[0].split()[-1]
            for one in found.comparisons
            if one.what.startswith(f"iid {pace} Krum") and "honest above" not in one.what
        }
        assert max(shares) == largest
        assert f"Krum {breakdown(pace)['Krum']:g}" in found.published


def test_the_table_has_both_points_where_they_differ() -> None:
    rows = {row[0]: row[1] for row in tables("quick", results(everywhere()))[-1].rows}
    assert rows["Krum"] == "synchronous 0.4, buffered 0.3"
    assert (rows["median"], rows[MEAN]) == ("0.5", "0")
    assert rows["centred clipping"] == "depends on the spread"
