"""Settings of the papers that decide a verdict: which momenta are tried, what is divided by what, who is active."""

from __future__ import annotations

from fedpace.reproduce import fedgm_autonomous
from fedpace.reproduce.experiment import Verdict
from fedpace.reproduce.judgement import settled
from fedpace.reproduce.results import Results
from fedpace.theory import stability_limit

from .conftest import outcome, results


def test_under_delay_the_grid_has_the_momenta_that_are_stable_at_the_largest_rates() -> None:
    grids = {grid.name: grid for grid in fedgm_autonomous.grids("quick")}
    wide = grids["wide autonomous FedGM, R = 10"]
    assert wide.others[0] == ", beta 0.95 nu 0.7"
    largest = max(rate for rate, other in wide.settings() if other == wide.others[0])
    assert largest <= stability_limit(0.95, 0.7, 10) / fedgm_autonomous.WAY < 2.0


def test_the_printed_form_divides_by_steps_and_multiplies_by_nothing() -> None:
    cells = fedgm_autonomous.cells("quick", Results())
    references = {cell.name.split()[1]: cell.algorithm.aggregate for cell in cells if "R = 5" in cell.name}
    assert references["printed"].k_ref == 1.0
    assert references["wide"].k_ref == "mean"


def test_the_printed_form_is_judged_beside_the_other() -> None:
    made = {
        f"printed autonomous {method}, R = 5": [outcome([accuracy + seed / 1000] * 6) for seed in range(5)]
        for method, accuracy in (("FedGM", 0.8), ("FedAvg", 0.7))
    }
    found = settled("quick", fedgm_autonomous.findings("quick", results(made)))
    told = {claim.claim: claim.verdict for claim in found if claim.verdict is not Verdict.NOT_RUN}
    assert list(told.values()) == [Verdict.REPRODUCED]
    assert next(iter(told)).endswith("as printed")
