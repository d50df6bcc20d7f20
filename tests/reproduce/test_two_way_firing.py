"""How often a lazy rule acted, and what is said of a method whose rule acted rarely."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedpace.errors import ConfigError
from fedpace.reproduce.cell import NamedTask
from fedpace.reproduce.experiment import Finding
from fedpace.reproduce.results import Results
from fedpace.reproduce.two_way.firing import hardly_fired, how_often, often_and_about, with_its_rule

from .conftest import outcome, results

CLIENTS = 20


def of_twenty_clients(made: Results) -> Results:
    """The same results, of cells that know how many clients they have."""
    task = NamedTask("fashion-mnist", "iid", "mlp:64", CLIENTS)
    made.cells |= {name: replace(cell, task=task) for name, cell in made.cells.items()}
    return made


def of_600_uploads(*shares: float) -> Results:
    """A cell whose rule fired in these shares, seed by seed."""
    traffic = [{"up": {"firing_rate": share, "frames": 600}} for share in shares]
    return of_twenty_clients(results({"a cell": [outcome([0.5], traffic=each) for each in traffic]}))


@pytest.mark.parametrize(("share", "hardly"), [(0.009, False), (0.011, True), (0.033, True), (0.034, False)])
def test_a_rule_hardly_fired_from_one_percent_to_once_per_client(share: float, hardly: bool) -> None:
    """20 of 600 uploads are 3.3 %."""
    made = of_600_uploads(share, share)
    assert hardly_fired(made, "a cell") is hardly
    assert ("once per client" in how_often(made, "a cell")) is hardly
    assert ("about FedAMS rather than NLA" in often_and_about(made, "a cell", "FedNLAA")) is hardly


def test_a_rule_that_never_fired_leaves_an_equal_method() -> None:
    found = Finding("FedNLAA is ahead", "a figure", "ours")
    notes = [
        with_its_rule(of_600_uploads(*shares), "a cell", "FedNLAA", found).note
        for shares in ((0.0, 0.0), (0.0, 0.002))
    ]
    assert notes[0] == "its rule fired in 0.0% of uploads: it equals FedAMS here."
    assert notes[1] == "its rule fired in 0.1% of uploads: it is nearly FedAMS here."


def test_clients_must_be_known_where_firings_are_counted() -> None:
    made = results({"a cell": [outcome([0.5], traffic={"up": {"firing_rate": 0.5, "frames": 600}})]})
    with pytest.raises(ConfigError, match="the task of 'a cell' must be a NamedTask"):
        hardly_fired(made, "a cell")
