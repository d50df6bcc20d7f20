"""What a run says of its server optimizer."""

from __future__ import annotations

import numpy as np
import pytest

import fedpace
from fedpace import algorithms as a
from fedpace.cli.notes import notes
from fedpace.server_opt import AMSGrad
from fedpace.tasks import quadratics


def test_coordinates_above_the_floor_are_counted():
    """v = (1 - b2) delta^2 after one step: .01 delta^2 against eps = .01 has delta = 1 on the border."""
    opt = AMSGrad(1.0, eps=0.01)
    x = np.zeros(4)
    _, state = opt.apply(x, np.array([0.5, 0.999, 1.001, 2.0]), opt.init(x))
    assert opt.counts(state) == {"above_floor": 2}


@pytest.mark.parametrize(("eps", "above"), [(1e-3, 0), (1e-12, 3)])
def test_a_run_whose_amsgrad_adapts_nothing_says_so(eps, above):
    """At the floor AMSGrad is momentum at rate lr / sqrt(eps), to the bit that b2 = 1 gives."""
    task = quadratics([[1.0, 2.0, 3.0], [2.0, 1.0, 1.0]])
    runs = [
        fedpace.simulate(a.fedams(eps=eps, b2=b2, steps=1, client_lr=0.01), task, rounds=5)
        for b2 in (0.99, 1.0)
    ]
    assert runs[0].counters["above_floor"] == above
    assert np.array_equal(runs[0].model, runs[1].model) == (above == 0)
    said = [line for line in notes(runs[0], task) if "AMSGrad" in line]
    assert [f"at rate {0.03 / eps**0.5:.3g}" in line for line in said] == [True] * (above == 0)


def test_other_optimizers_count_nothing():
    run = fedpace.simulate(a.fedavg(steps=1), quadratics([0.0, 1.0]), rounds=1)
    assert "above_floor" not in run.counters
