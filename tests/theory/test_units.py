"""Every bound in the right unit: measure the model in other units (x -> s x) and the loss in others (f -> u f).

A squared gradient then scales by (u/s)², a client's rate by s²/u, a rate of a server that adapts by s. Formulas with a
misprinted power of L, G or eps fail this; that is how those of the papers were found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedpace.local import SGD
from fedpace.theory import Setting, Work, buffered_bounds, defedavg_bounds, nova_bounds, two_way_bounds
from fedpace.theory.defedavg_bounds import Rates
from fedpace.theory.two_way_bounds import Adaptive, Compression

FULL = Setting(2.0, 12, 5, noise=0.7, spread=1.3, gap=4.0, gradient=3.0, widest=2.0, radius=6.0, size=9)
SAMPLED = replace(FULL, per_round=4)
WORK = Work.of(SGD(0.1, steps=1), (2, 5, 9), (0.5, 0.3, 0.2))
S, U = 1.7, 0.6


def in_other_units(setting: Setting) -> Setting:
    square = (U / S) ** 2
    return replace(
        setting,
        smoothness=setting.smoothness * U / S**2,
        noise=setting.noise * square,
        spread=setting.spread * square,
        gradient=setting.gradient * square,
        widest=setting.widest_spread * square,
        gap=setting.gap * U,
        radius=setting.radius * S,
    )


@pytest.mark.parametrize("setting", [FULL, SAMPLED], ids=["all clients", "sampled"])
@pytest.mark.parametrize(
    "bound",
    [
        lambda s, lr: defedavg_bounds.niid_bound(s, Rates(lr, 1.5), 90).total,
        lambda s, lr: defedavg_bounds.iid_bound(s, Rates(lr, 1.5), 90).total,
        lambda s, lr: buffered_bounds.fedbuff_bound(s, lr, 1.5, 3, 90).total,
        lambda s, lr: buffered_bounds.ca2fl_bound(s, lr, 1.5, 3, 8, 90).total,
        lambda s, lr: buffered_bounds.ca2fl_bound(s, lr, 1.5, 3, 8, 90, 1.4).total,
        lambda s, lr: (
            nova_bounds.bound(
                WORK, lr, 90, smoothness=s.smoothness, sigma2=s.noise, kappa2=s.spread, gap=s.gap
            ).total
        ),
        lambda s, lr: (
            nova_bounds.sampled_bound(
                WORK, lr, 90, 2, smoothness=s.smoothness, sigma2=s.noise, kappa2=s.spread, gap=s.gap
            ).total
        ),
    ],
)
def test_bounds_are_squared_gradients(bound: Any, setting: Setting) -> None:
    other = bound(in_other_units(setting), 0.01 * S**2 / U)
    assert other == pytest.approx(bound(setting, 0.01) * (U / S) ** 2, rel=1e-12)


@pytest.mark.parametrize("setting", [FULL, SAMPLED], ids=["all clients", "sampled"])
@pytest.mark.parametrize(
    "limit",
    [
        lambda s: defedavg_bounds.niid_limit(s, 1.5, 3),
        lambda s: defedavg_bounds.iid_limit(s, 1.5, 3),
        lambda s: buffered_bounds.fedbuff_limit(s, 1.5, 3),
        lambda s: buffered_bounds.ca2fl_limit(s, 1.5, 3, 8),
        lambda s: nova_bounds.limit(WORK, s.smoothness),
        lambda s: defedavg_bounds.niid_rates(s, 90).product,
        lambda s: defedavg_bounds.iid_rates(s, 90).product,
    ],
)
def test_limits_are_learning_rates(limit: Any, setting: Setting) -> None:
    assert limit(in_other_units(setting)) == pytest.approx(limit(setting) * S**2 / U, rel=1e-9)


LINKS = {
    "plain": Compression(),
    "lazy": Compression(threshold=0.5),
    "compressed": Compression(0.9, 0.7, 0.2, 0.5),
    "both ways": Compression(0.9, 0.7, 0.2, 0.5, both_ways=True, down_gamma=0.7, down_threshold=0.1),
}


@pytest.mark.parametrize("setting", [FULL, SAMPLED], ids=["all clients", "sampled"])
@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_adaptive_bounds_and_limits(link: Compression, setting: Setting) -> None:
    server = Adaptive(0.3, eps=0.02)
    other = Adaptive(0.3 * S, eps=0.02 * S**2)
    moved = two_way_bounds.bound(in_other_units(setting), other, link, 0.01 * S**2 / U, 90)
    here = two_way_bounds.bound(setting, server, link, 0.01, 90)
    for name in ("start", "adaptive", "drift", "noise", "sampling", "lazy", "down"):
        assert getattr(moved, name) == pytest.approx(getattr(here, name) * (U / S) ** 2, rel=1e-12), name
    highest = two_way_bounds.limit(in_other_units(setting), other, link)
    assert highest == pytest.approx(two_way_bounds.limit(setting, server, link) * S**2 / U, rel=1e-9)


def test_the_printed_lazy_term_has_another_unit() -> None:
    """sqrt(2) G C / (alpha m eps), Theorem 4.1 as printed: scales by u/s · 1/s² under the root's s, not (u/s)²."""

    def printed(g: float, eps: float) -> float:
        return 2**0.5 * g * 0.5 / eps

    moved = printed(FULL.gradient**0.5 * U / S, 0.02 * S**2) * S  # the factor in front, √v̂, scales by s
    assert moved != pytest.approx(printed(FULL.gradient**0.5, 0.02) * (U / S) ** 2, rel=0.1)
