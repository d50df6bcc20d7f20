"""One device, fitted to the sessions that were observed of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from fedpace.deploy.prediction.fitting import MOST_SESSIONS, DeviceTimes, fit, warm, warm_up_s
from fedpace.deploy.prediction.sessions import ObservedSession


def session(
    took_s: float, train_s: float | None, bytes_: int = 2000, steps: int = 4, sent_s: float = 0.0
) -> ObservedSession:
    return ObservedSession(sent_s, sent_s, sent_s + took_s, train_s, steps, bytes_ // 2, bytes_ - bytes_ // 2)


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


def test_a_client_that_waits_for_the_server_is_measured_by_its_own_clock() -> None:
    asked = [replace(session(9.0, 2.0), asked_s=8.9), replace(session(5.0, 2.0), asked_s=4.0)]
    times = fit(asked, waits=True)
    assert times.train_s == 2.0 and times.latency_s == pytest.approx(0.05) and times.extra_s == (0.0, 0.0)


def test_so_many_sessions_are_kept_evenly_over_the_run() -> None:
    times = fit([session(k, k) for k in range(1, 2 * MOST_SESSIONS + 2)], waits=False)
    assert len(times.slowdown) == -(-(2 * MOST_SESSIONS + 1) // 3) <= MOST_SESSIONS
    assert times.train_s == pytest.approx(MOST_SESSIONS, rel=0.01)


def test_first_sessions_take_longer() -> None:
    slow = [[session(5.0, 4.9), session(2.0, 1.9), session(2.0, 1.9)], [session(4.0, 3.9), session(1.5, 1.4)]]
    assert warm_up_s(slow) == pytest.approx(2.75)
    assert warm(slow[0], 2.75) == slow[0][1:]
    [only] = warm([session(4.0, 3.9)], 2.75)
    assert only.arrived_s == pytest.approx(1.25) and only.train_s == pytest.approx(1.15)
    assert warm_up_s([[session(1.0, 0.9)]]) == 0.0
