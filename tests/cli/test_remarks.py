"""What a run says about itself at the end."""

from __future__ import annotations

import pytest

SMALL = (
    "--task",
    "digits",
    "--clients",
    4,
    "--rounds",
    1,
    "--set",
    "clients_per_round=1",
    "--set",
    "steps=1",
)


@pytest.mark.parametrize(("tau_eff", "noted"), [("sampled", True), ("population", False)])
def test_fednova_whose_rounds_are_not_consistent_says_so(fedpace, tau_eff: str, noted: bool) -> None:
    said = fedpace("run", "fednova", *SMALL, "--set", f"tau_eff={tau_eff}", "--workers", 1)
    assert said.code == 0
    assert ("note: tau_eff of the sampled clients is large when" in said.out) == noted
