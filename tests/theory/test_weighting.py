"""Clients of very unequal size whose updates count the same."""

from __future__ import annotations

import pytest

import fedpace
from fedpace.aggregate import Mean, Weighted
from fedpace.algorithms import ca2fl, fedavg, fedbuff, fednova, fedprox
from fedpace.errors import ConfigError
from fedpace.theory.weighting import effective_share, note, with_weighting

UNEQUAL = (1, 1, 1, 9)  # 12² / (4 x 84) = 3/7
LINE = (
    "clients hold from 1 to 9 samples and their updates count the same; "
    'weighting="samples" counts them by their samples'
)


@pytest.mark.parametrize(("sizes", "share"), [((5, 5, 5), 1.0), (UNEQUAL, 3 / 7), ((1, 0, 0, 0), 0.25)])
def test_the_share_of_clients_that_would_hold_the_samples_evenly(sizes, share) -> None:
    assert effective_share(sizes) == pytest.approx(share, rel=1e-15)


def test_the_line_is_for_uniform_weights_and_unequal_sizes_only() -> None:
    assert note(fedavg(), UNEQUAL) == LINE
    assert note(fedbuff(), UNEQUAL) == LINE.replace('weighting="samples"', "the rule aggregate=Weighted()")
    assert note(fednova(weighting="uniform"), UNEQUAL) == LINE
    assert note(fedavg(), (1, 1, 1, 3)) is None  # 36 / 48
    for indifferent in (fedavg(weighting="samples"), fedprox(), fednova(), fedavg(select="share"), ca2fl()):
        assert note(indifferent, UNEQUAL) is None


def test_one_call_sets_it_for_every_algorithm_that_has_it() -> None:
    assert with_weighting(fedavg(), "samples") == fedavg(weighting="samples")
    assert with_weighting(fedprox(), "uniform") == fedprox(weighting="uniform")
    assert with_weighting(fednova(), "uniform") == fednova(weighting="uniform")
    discounted = fedbuff()
    assert isinstance(discounted.aggregate, Mean)
    assert with_weighting(discounted, "samples").aggregate == Weighted(discounted.aggregate.staleness)
    assert with_weighting(ca2fl(), "samples") == ca2fl()
    with pytest.raises(ConfigError, match="weighting must be uniform or samples; got 'size'"):
        with_weighting(fedavg(), "size")


def test_it_is_said_after_a_run() -> None:
    from fedpace.cli.notes import notes

    task = fedpace.tasks.quadratics([1, 2, 3, 4], weights=UNEQUAL)
    run = fedpace.simulate(fedavg(steps=1), task, rounds=1)
    assert LINE in list(notes(run, task))
    assert LINE not in list(
        notes(fedpace.simulate(fedavg(steps=1, weighting="samples"), task, rounds=1), task)
    )
