"""EControl and momentum before compression: the listings, and the links that they contain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedpace import algorithms
from fedpace.check import check_uplink
from fedpace.errors import ConfigError
from fedpace.link import EF21, Averaged, Context, Dense, EControl, ErrorFeedback, Octaves, Plain, RandK, TopK
from fedpace.link.protocol import Uplink

UPDATES = np.random.default_rng(7).normal(size=(25, 12)) + 0.3


def used(link: Uplink, updates: np.ndarray = UPDATES) -> tuple[np.ndarray, Any]:
    """The values that the server uses, and the sender's last state."""
    rng = np.random.default_rng(0)
    sender, receiver = (link.init(updates.shape[1], np.dtype(np.float64)) for _ in range(2))
    values = []
    for t, v in enumerate(updates):
        frame, sender = link.send(v, sender, Context(t), rng)
        value, receiver = link.receive(frame, receiver, v.size)
        values.append(value)
    return np.array(values), sender


def largest(v: np.ndarray, k: int) -> np.ndarray:
    kept = np.zeros_like(v)
    places = np.argsort(-np.abs(v), kind="stable")[:k]
    kept[places] = v[places]
    return kept


@pytest.mark.parametrize("eta", [0.05, 0.3, 1.0])
def test_econtrol_is_the_listing(eta):
    """Gao, Islamov & Stich, Algorithm 1: Delta = C(eta e + g - h), e <- e + g - h - Delta, h <- h + Delta."""
    h, e, expected = np.zeros(12), np.zeros(12), []
    for g in UPDATES:
        change = largest(eta * e + g - h, 3)
        e = e + g - h - change
        h = h + change
        expected.append(h)
    values, state = used(EControl(TopK(0.25), eta))
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(state.e, e, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weight", [0.1, 0.5])
def test_momentum_before_compression_is_the_listing(weight):
    """Fatkhullin, Tyurin & Richtarik, EF21-SGDM: v <- (1 - eta) v + eta g, then h <- h + C(v - h)."""
    h, v, expected = np.zeros(12), UPDATES[0], []
    for t, g in enumerate(UPDATES):
        v = (1 - weight) * v + weight * g if t else g
        h = h + largest(v - h, 3)
        expected.append(h)
    np.testing.assert_allclose(used(Averaged(weight, EF21(TopK(0.25))))[0], expected, rtol=0, atol=1e-12)


def test_with_nothing_added_econtrol_is_ef21():
    assert np.array_equal(used(EControl(TopK(0.25), 0.0))[0], used(EF21(TopK(0.25)))[0])
    assert not np.array_equal(used(EControl(TopK(0.25), 0.1))[0], used(EF21(TopK(0.25)))[0])


@pytest.mark.parametrize("eta", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("codec", [TopK(0.25), Octaves(0.25)], ids=str)
def test_econtrol_loses_nothing(codec, eta):
    """Sum of the values used + e = sum of the updates."""
    values, state = used(EControl(codec, eta))
    np.testing.assert_allclose(values.sum(0) + state.e, UPDATES.sum(0), rtol=0, atol=1e-12)


def test_controlled_errors_stay_small_where_those_of_ef21_add_up():
    """Updates with one sign: EF21 lags behind for good, EControl delivers what it owes."""
    owed = [
        np.abs(used(EControl(TopK(0.25), eta), np.tile(UPDATES, (8, 1)))[1].e).max() for eta in (0.0, 0.1)
    ]
    assert owed[1] < owed[0] / 2


@pytest.mark.parametrize(
    "link", [Plain(), ErrorFeedback(TopK(0.25)), EF21(TopK(0.25)), EControl(TopK(0.25))], ids=str
)
def test_the_newest_update_alone_is_the_link_alone(link):
    assert np.array_equal(used(Averaged(1.0, link))[0], used(link)[0])


def test_a_running_mean_over_an_exact_link_is_exact():
    """Weight 1/2 of 4, 8, 0: 4, then 6, then 3."""
    values, _ = used(Averaged(0.5, Plain()), np.array([[4.0], [8.0], [0.0]]))
    assert values.tolist() == [[4], [6], [3]]


def test_promises_and_refusals():
    check_uplink(EControl(TopK(0.25)))
    check_uplink(EControl(Octaves(0.25), 0.5))
    check_uplink(Averaged(0.3, EF21(TopK(0.25))))
    check_uplink(Averaged(0.3, EControl(TopK(0.25))))
    with pytest.raises(ConfigError, match="must contract"):
        EControl(RandK(0.25))
    with pytest.raises(ConfigError, match=r"EControl.eta must be in \[0, 1\]; got 1.5"):
        EControl(TopK(0.25), 1.5)
    with pytest.raises(ConfigError, match=r"Averaged.weight must be in \(0, 1\]; got 0"):
        Averaged(0, Plain())
    with pytest.raises(ConfigError, match="Averaged.link must be"):
        Averaged(0.5, Averaged(0.5, Plain()))


def test_resynchronised_the_error_stays_and_the_estimate_begins_again():
    link = EControl(TopK(0.25), 0.1)
    _, sender = used(link)
    again = link.resync(sender)
    frame, _ = link.send(UPDATES[0], again, Context(30), np.random.default_rng(0))
    value, _ = link.receive(frame, link.init(12, np.dtype(np.float64)), 12)
    np.testing.assert_allclose(value, largest(0.1 * sender.e + UPDATES[0], 3), rtol=0, atol=1e-12)


def test_two_way_takes_both():
    assert algorithms.two_way(codec=TopK(0.25), memory="econtrol").up == EControl(TopK(0.25), 0.1)
    assert algorithms.two_way(codec=Dense(), newest=0.2).up == Averaged(0.2, ErrorFeedback(Dense()))
    with pytest.raises(ConfigError, match='zero with memory="econtrol"'):
        algorithms.two_way(memory="econtrol", tau=0.5)
    with pytest.raises(ConfigError, match="newest must be 1 with tau > 0"):
        algorithms.two_way(newest=0.5, tau=0.5)
    with pytest.raises(ConfigError, match="auto, none, ef, ef21 or econtrol"):
        algorithms.two_way(memory="fresh")
