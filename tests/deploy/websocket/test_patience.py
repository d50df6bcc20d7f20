from __future__ import annotations

import numpy as np
import pytest

from deploy.pairs import small
from fedpace.deploy.identity.peers import PeerCertificate
from fedpace.deploy.websocket.chunks import ViolationError
from fedpace.deploy.websocket.gate import Gate
from fedpace.deploy.websocket.limits import Budget, Meter, TokenBucket, TransportLimits
from fedpace.deploy.websocket.patience import Backoff, Occurrences, Pulse
from fedpace.errors import ConfigError


def test_alive_is_any_byte_within_three_heartbeats() -> None:
    pulse = Pulse(10.0, now=100.0)
    assert not pulse.is_dead(130.0) and pulse.is_dead(130.1)
    pulse.heard_at = 130.0
    assert not pulse.is_dead(160.0) and pulse.is_dead(160.1)


def test_silence_is_broken_after_one_heartbeat() -> None:
    pulse = Pulse(10.0, now=100.0)
    assert not pulse.must_speak(109.9) and pulse.must_speak(110.0)
    pulse.spoke_at = 110.0
    assert not pulse.must_speak(119.9)


class Highest:
    """A generator that draws the upper end."""

    def uniform(self, low: float, high: float) -> float:
        assert low == 0.0
        return high


def test_waits_double_up_to_the_cap_for_ever_and_start_anew() -> None:
    backoff = Backoff(Highest(), base=0.5, cap=30.0)  # type: ignore[arg-type]
    assert [backoff.failed() for _ in range(8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert [backoff.failed() for _ in range(5000)] == [30.0] * 5000
    backoff.succeeded()
    assert backoff.failed() == 0.5


def test_the_jitter_is_the_generators() -> None:
    waits = [[Backoff(np.random.default_rng(seed)).failed() for _ in range(5)] for seed in (1, 1, 2)]
    assert waits[0] == waits[1] != waits[2]


@pytest.mark.parametrize(("base", "cap"), [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0)])
def test_waits_that_make_no_sense_are_refused(base: float, cap: float) -> None:
    with pytest.raises(ConfigError, match="backoff"):
        Backoff(np.random.default_rng(0), base, cap)


def test_occurrences_of_the_last_minute() -> None:
    seen = Occurrences()
    assert [seen.count(now) for now in (0.0, 30.0, 59.9, 60.0, 200.0)] == [1, 2, 3, 3, 1]


def test_a_bucket_lets_a_burst_through_and_then_its_rate() -> None:
    bucket = TokenBucket(rate=10.0, burst=20.0, now=0.0)
    assert bucket.take(20.0, 0.0) == 0.0
    assert bucket.take(5.0, 0.0) == 0.5
    assert bucket.take(5.0, 1.0) == 0.0  # the debt is paid, and as much again
    assert bucket.take(20.0, 100.0) == 0.0  # no more than the burst was saved up


def test_the_meter_counts_bytes_and_frames() -> None:
    limits = small(bytes_per_second=100.0, frames_per_second=10.0, burst_seconds=1.0)
    assert Meter(limits, 0.0).take(150, 0.0) == 0.5
    many = Meter(limits, 0.0)
    assert [many.take(0, 0.0) for _ in range(12)][-1] == pytest.approx(0.2)


def test_a_budget_is_lent_in_total_and_to_each() -> None:
    budget = Budget(total=10, each=6)
    assert budget.take("a", 6) and not budget.take("a", 1)
    assert budget.take("b", 4) and not budget.take("c", 1)
    budget.give_back("a", 6)
    assert budget.take("c", 6) and budget.lent == 10


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"chunk_bytes": 256 * 1024 + 1}, "at most 256 KiB"),
        ({"chunk_bytes": 512}, "> 512"),
        ({"credit_bytes": 300_000}, "two chunks"),
        ({"spool_above": 64 << 20}, "less than memory_each"),
        ({"message_bytes": 17 << 30}, "<= spool_total"),
        ({"heartbeat_s": 0.0}, "heartbeat_s must be > 0"),
        ({"joins_a_minute": 0}, "joins_a_minute must be a whole number >= 1"),
    ],
)
def test_limits_that_contradict_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TransportLimits(**wrong)  # type: ignore[arg-type]


def test_the_numbers_of_the_transport() -> None:
    limits = TransportLimits()
    assert limits.chunk_bytes == 256 * 1024 and limits.credit_bytes == 1 << 20
    assert limits.spool_above == 8 << 20 and limits.silence_s == 3 * limits.heartbeat_s
    assert limits.takeovers_a_minute == 3


def gate(**limits: float) -> tuple[Gate, list[str]]:
    alarms: list[str] = []
    return Gate(4, small(**limits), None, alarms.append), alarms


def test_the_fourth_takeover_within_a_minute_suspends_with_an_alarm() -> None:
    own, alarms = gate(suspension_seconds=600.0)
    for now in (0.0, 1.0, 2.0):
        own.joins(1, now, takes_over=True)
    with pytest.raises(ViolationError, match="suspended"):
        own.joins(1, 3.0, takes_over=True)
    assert len(alarms) == 1 and "client 1 is suspended for 600 s" in alarms[0]
    with pytest.raises(ViolationError, match="suspended"):
        own.admit(1, 602.9)
    own.admit(1, 603.0)
    own.admit(2, 3.0)


def test_three_takeovers_a_minute_are_borne_for_ever() -> None:
    own, alarms = gate()
    for second in range(0, 6000, 20):
        own.joins(1, float(second), takes_over=True)
    assert alarms == []


def test_a_suspension_can_be_lifted() -> None:
    own, _ = gate(takeovers_a_minute=1)
    own.joins(1, 0.0, takes_over=True)
    with pytest.raises(ViolationError):
        own.joins(1, 0.0, takes_over=True)
    own.lift(1)
    own.admit(1, 0.0)


def test_who_comes_too_often_is_refused_for_the_moment() -> None:
    own, alarms = gate(joins_a_minute=2)
    own.joins(1, 0.0, takes_over=False)
    own.joins(1, 0.0, takes_over=False)
    with pytest.raises(ViolationError, match="more than 2 times"):
        own.joins(1, 0.0, takes_over=False)
    own.joins(1, 61.0, takes_over=False)
    assert alarms == []


@pytest.mark.parametrize("client", [-1, 4, 2**32 - 1])
def test_numbers_that_are_not_in_the_study_are_refused(client: int) -> None:
    with pytest.raises(ViolationError, match="no client"):
        gate()[0].admit(client, 0.0)


def test_a_certificate_expires_on_live_connections_too() -> None:
    shown = PeerCertificate(1, "ab" * 32, expires=100.0)
    gate()[0].check(shown, 99.9)
    with pytest.raises(ViolationError, match="expired"):
        gate()[0].check(shown, 100.0)
