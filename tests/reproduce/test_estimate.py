"""Which runs an estimate takes to be equally fast."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedpace import aggregate, algorithms, link, server_opt
from fedpace.reproduce import estimate as costs
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.estimate import estimate
from fedpace.reproduce.outcome import Outcome
from fedpace.sim import Population
from fedpace.sim.hostile import Hostile

from .conftest import cell, outcome

PLAIN = cell().algorithm


@pytest.fixture
def probed(monkeypatch) -> list[Cell]:
    """The cells that were timed."""
    found: list[Cell] = []

    def probe(cell: Cell, seed: int, rounds: int) -> Outcome:
        found.append(cell)
        return outcome([0.5] * rounds)

    monkeypatch.setattr(costs, "simulated", probe)
    return found


@pytest.mark.parametrize(
    "rules",
    [
        {"up": link.TopK(0.5)},
        {"up": link.ErrorFeedback(link.TopK(0.5))},
        {"up": link.ErrorFeedback(link.ScaledSign())},
        {"down": link.Difference(link.ScaledSign())},
        {"aggregate": aggregate.Median()},
        {"aggregate": aggregate.Bucketed(2, aggregate.Median())},
        {"server_opt": server_opt.Adam(0.1)},
        {"server_opt": server_opt.Yogi(0.1)},
        {"local": algorithms.fedavg(client_lr=0.5, steps=2, batch_size=None).local},
        {"pace": algorithms.fedbuff(buffer=1, concurrency=2, steps=1, client_lr=0.5).pace},
    ],
)
def test_runs_of_other_rules_are_timed_apart(probed, rules) -> None:
    other = cell(algorithm=replace(PLAIN, **rules))
    estimate([(cell(), 0), (other, 0), (replace(other, name="again"), 1)])
    assert {id(each) for each in probed} >= {id(other)} and len(_algorithms(probed)) == 2


def test_a_rule_inside_another_makes_a_kind(probed) -> None:
    memories = [link.Plain(link.TopK(0.5)), link.EF21(link.TopK(0.5))]
    inside = [*memories, *(link.ErrorFeedback(codec) for codec in (link.TopK(0.5), link.ScaledSign()))]
    lazy = [link.Lazy("nla", 0.5, link=one) for one in inside]
    estimate([(cell(algorithm=replace(PLAIN, up=one)), 0) for one in lazy])
    assert len(_algorithms(probed)) == 4


def test_runs_with_other_devices_are_timed_apart(probed) -> None:
    populations = [None, Population(step_s=1.0), Population(step_s=2.0), Population(step_s=2.0, drop=0.5)]
    estimate([(cell(population=one), 0) for one in populations])
    assert {repr(each.population) for each in probed} == {repr(one) for one in populations}


def test_numbers_of_rules_and_of_attackers_make_no_kind_of_their_own(probed) -> None:
    """Other rates, shares and thresholds are timed once; attackers apart from none."""
    rates = [
        replace(PLAIN, server_opt=server_opt.Adam(rate, eps=eps))
        for rate in (0.1, 1.0)
        for eps in (1e-3, 1e-7)
    ]
    codecs = [replace(PLAIN, up=link.ErrorFeedback(link.TopK(ratio))) for ratio in (0.5, 0.25)]
    hostile = [Population(hostile=Hostile(share, "sign_flip")) for share in (0.1, 0.4)]
    cells = [cell(algorithm=one) for one in (*rates, *codecs)]
    estimate([(one, 0) for one in (*cells, *(cell(population=one) for one in (*hostile, Population())))])
    assert {id(each) for each in probed[:-4]} == {id(cells[0]), id(cells[4])}
    assert [each.population for each in probed[-4::2]] == [hostile[0], Population()]


def _algorithms(probed: list[Cell]) -> set[str]:
    return {repr(each.algorithm) for each in probed}
