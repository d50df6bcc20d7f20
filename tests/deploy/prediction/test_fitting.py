"""One device, fitted to the sessions that were observed of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fedpace.deploy.prediction.fitting import MOST_SESSIONS, DeviceTimes, fit, warm, warm_up_s
from fedpace.deploy.prediction.sessions import ObservedSession


def session(
    took_s: float,
    train_s: float | None,
    bytes_: int = 2000,
    steps: int = 4,
    sent_s: float = 0.0,
    first: bool = True,
) -> ObservedSession:
    return ObservedSession(
        sent_s=sent_s,
        asked_s=sent_s,
        asked_bytes=0,
        arrived_s=sent_s + took_s,
        train_s=train_s,
        steps=steps,
        bytes_down=bytes_ // 2,
        bytes_up=bytes_ - bytes_ // 2,
        first=first,
    )


def said_seconds(times: DeviceTimes, sessions: Sequence[ObservedSession]) -> list[float]:
    """The equation of the simulation, for the sessions themselves."""
    return [
        each.steps * times.step_s * slowdown
        + extra_s
        + 2 * times.latency_s
        + (each.bytes_down + each.bytes_up) * times.s_per_byte
        for each, slowdown, extra_s in zip(sessions, times.slowdown, times.extra_s, strict=True)
    ]


def test_every_observed_session_comes_out_as_it_was() -> None:
    """Of any speed, link, number of steps and size."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        count = int(rng.integers(1, 6))
        trained, link = rng.exponential(size=(2, count)) * 10.0 ** rng.integers(-6, 3, size=(2, 1))
        observed = [
            session(float(one + other), float(one), int(rng.integers(1, 10**6)), int(rng.integers(1, 9)))
            for one, other in zip(trained, link, strict=True)
        ]
        times = fit(observed, waits=False)
        assert min(times.step_s, times.latency_s, times.s_per_byte, *times.slowdown) >= 0 < times.step_s
        assert said_seconds(times, observed) == pytest.approx(list(trained + link), rel=1e-6)


def test_noise_of_the_link_leaves_the_speed_as_it_is() -> None:
    times = fit([session(1.2, 1.0), session(1.4, 1.0)], waits=False)
    assert times.step_s == pytest.approx(0.25) and times.latency_s == pytest.approx(0.1)
    assert times.slowdown == pytest.approx((1, 1)) and times.extra_s == pytest.approx((0, 0.2))


def test_noise_of_the_training_leaves_the_link_as_it_is_and_grows_with_the_steps() -> None:
    times = fit([session(1.2, 1.0), session(3.2, 3.0)], waits=False)
    assert times.step_s == pytest.approx(0.5) and times.slowdown == pytest.approx((0.5, 1.5))
    assert times.extra_s == pytest.approx((0, 0)) and times.latency_s == pytest.approx(0.1)


def test_latency_and_rate_are_told_apart_where_sizes_differ() -> None:
    """transfer = 0.1 + bytes / 1e6, exactly."""
    sizes = (1000, 200_000, 400_000)
    times = fit([session(1.1 + size / 1e6, 1.0, size) for size in sizes], waits=False)
    assert times.s_per_byte == pytest.approx(1e-6) and times.latency_s == pytest.approx(0.05)
    large = fit(
        [session(1.4, 1.0, 10**6), session(1.6, 1.0, 10**6)], waits=False
    )  # of one size: all of it is rate
    assert large.s_per_byte == pytest.approx(0.5e-6) and large.latency_s == 0.0
    assert large.extra_s == pytest.approx((-0.1, 0.1))


def test_a_client_that_does_not_say_how_long_it_trained_has_no_link() -> None:
    times = fit([session(2.0, None), session(2.0, None)], waits=False)
    assert (times.train_s, times.latency_s, times.s_per_byte, times.extra_s) == (2.0, 0.0, 0.0, (0.0, 0.0))


def answered(
    asked_s: float, train_s: float, latency_s: float, s_per_byte: float, steps: int = 4, asked_bytes: int = 0
) -> ObservedSession:
    """A model of 3,000 bytes is sent at 0 and trained on; the update leaves when that is done and the order is here."""
    trained_s = latency_s + 3000 * s_per_byte + train_s
    left_s = max(trained_s, asked_s + latency_s + asked_bytes * s_per_byte)
    return ObservedSession(
        sent_s=0.0,
        asked_s=asked_s,
        asked_bytes=asked_bytes,
        arrived_s=left_s + latency_s + 3000 * s_per_byte,
        train_s=train_s,
        steps=steps,
        bytes_down=3000,
        bytes_up=3000,
        first=False,
    )


LINK = {"latency_s": 0.05, "s_per_byte": 2e-5}  # 60 ms for 3,000 bytes


def test_a_client_that_waits_for_the_server_is_measured_by_its_own_clock() -> None:
    """Kept for long, or asked for while it trained: by either, the link comes out as it is; by both, its rate too."""
    late, early = answered(8.0, 2.0, **LINK), answered(0.5, 2.0, **LINK)
    both = fit([late, early], waits=True)
    assert both.train_s == 2.0 and both.extra_s == (0.0, 0.0)
    assert (both.latency_s, both.s_per_byte) == pytest.approx((0.05, 2e-5))
    for sessions, one_way_s in (([late], 0.05 + 0.03), ([early], 0.05 + 0.06)):  # half of one message, of two
        alone = fit(sessions, waits=True)
        assert (alone.latency_s, alone.s_per_byte) == (pytest.approx(one_way_s), 0.0)


def test_a_session_that_may_have_been_kept_or_not_does_not_tell_of_the_link() -> None:
    """Asked for 20 ms after as long as it trained, while its model took 60 ms more than the order."""
    unclear = answered(2.02, 2.0, **LINK)
    sessions = [answered(8.0, 2.0, **LINK), unclear, answered(0.5, 2.0, **LINK)]
    assert fit(sessions, waits=True).latency_s == pytest.approx(0.05)
    assert fit([unclear], waits=True).latency_s == pytest.approx((unclear.arrived_s - 2.02) / 2)


def test_a_session_without_local_steps_tells_of_the_link_alone() -> None:
    """Interrupted together with its model: nothing was trained, and both messages took their time."""
    kept, none = answered(8.0, 2.0, **LINK), answered(0.0, 1e-6, **LINK, steps=0)
    times = fit([kept], waits=True, unstarted=[none])
    assert (times.latency_s, times.s_per_byte) == pytest.approx((0.05, 2e-5), rel=1e-4)
    assert (times.steps, times.train_s, len(times.slowdown)) == (4.0, 2.0, 1)


def test_an_interruption_that_brings_a_model_is_as_large_as_that() -> None:
    brought = [answered(8.0, 2.0, **LINK, asked_bytes=3000) for _ in range(2)]
    assert fit(brought, waits=True).latency_s == pytest.approx(0.05 + 0.06)


def test_so_many_sessions_are_kept_evenly_over_the_run() -> None:
    times = fit([session(k, k) for k in range(1, 2 * MOST_SESSIONS + 2)], waits=False)
    assert len(times.slowdown) == -(-(2 * MOST_SESSIONS + 1) // 3) <= MOST_SESSIONS
    assert times.train_s == pytest.approx(MOST_SESSIONS, rel=0.01)


def test_first_sessions_take_longer() -> None:
    slow = [[session(5.0, 4.9), session(2.0, 1.9), session(2.0, 1.9)], [session(4.0, 3.9), session(1.5, 1.4)]]
    assert warm_up_s(slow, waits=False) == pytest.approx(2.75)
    assert warm(slow[0], 2.75) == slow[0][1:]
    [only] = warm([session(4.0, 3.9)], 2.75)
    assert only.round_trip_s == pytest.approx(1.25) and only.train_s == pytest.approx(1.15)
    assert warm([session(4.0, 3.9, first=False)], 2.75) == [session(4.0, 3.9, first=False)]
    assert warm_up_s([[session(1.0, 0.9)]], waits=False) == 0.0


def test_a_client_whose_first_update_was_never_asked_for_does_not_tell_of_its_first_session() -> None:
    slow = [session(5.0, 4.9), session(2.0, 1.9)]
    other = [session(2.0, 1.9, first=False), session(2.0, 1.9)]
    for waits in (False, True):
        assert warm_up_s([slow, other, other], waits=waits) == pytest.approx(3.0)
        assert warm_up_s([other], waits=waits) == 0.0


def test_first_sessions_of_clients_that_wait_are_compared_by_local_steps() -> None:
    """Round trips have waiting in them: 3.9 s for one step, and 0.25 s for each of the others'."""
    sessions = [session(9.0, 3.9, steps=1), session(2.0, 1.0), session(7.0, 0.5, steps=2)]
    assert warm_up_s([sessions], waits=True) == pytest.approx(3.65)
