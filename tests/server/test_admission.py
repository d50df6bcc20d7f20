"""What a client claims is checked before anything of it is used, and one client alone decides nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.server.hand import begun, deliver, frame, not_finite_frame, server, skipped, step_of, update

from fedpace import algorithms
from fedpace.aggregate import Mean, Normalised, NormBound, Weighted
from fedpace.algorithm import Algorithm
from fedpace.errors import ConfigError, DivergedError
from fedpace.limits import Limits
from fedpace.local import SGD, Scaffold
from fedpace.pace import Arrivals, Buffered, Immediate, Polled, Rounds, Scripted
from fedpace.server import Server, Update
from fedpace.server.invariants import assert_sound
from fedpace.server_opt import AMSGrad, Momentum

HUGE = 10**400
NO_AMOUNT = [
    1e300,
    HUGE,
    -HUGE,
    math.nan,
    math.inf,
    -math.inf,
    "1",
    None,
    True,
    -1,
    -0.5,
    [1],
    1j,
    10**13,
    Fraction(HUGE),
]
NO_COUNT = [*NO_AMOUNT, 1.5, 1e9 + 0.5, np.float64(2.0)]
NO_SESSION = [*NO_COUNT, 0, 10**12]


def named(value: object) -> str:
    if isinstance(value, Fraction):
        return "fraction"
    return "huge" if isinstance(value, int) and abs(value) == HUGE else repr(value)[:24]


# ---------------------------------------------------------------- fields


@pytest.mark.parametrize(
    ("field", "value"),
    [("samples", value) for value in NO_AMOUNT]
    + [("a_norm1", value) for value in NO_AMOUNT]
    + [("steps", value) for value in NO_COUNT]
    + [("session", value) for value in NO_SESSION]
    + [("round", value) for value in NO_COUNT]
    + [("version", value) for value in NO_COUNT]
    + [("frames", value) for value in (None, b"", [b"x"], {"update": "x"}, {"model": b"x"}, {1: b"x"})],
    ids=named,
)
def test_a_value_of_the_wrong_type_or_size_is_malformed_and_changes_nothing(field: str, value: Any) -> None:
    s = begun(Buffered(2, 3, "immediate"), aggregate=Normalised(), correction=Scaffold())
    good = update(0, frames={"update": frame(1.0, 1.0), "control": frame(1.0, 1.0)})
    before = s.model, s.version, s.last_taken(0), s.state.control
    answer = s.receive(replace(good, **{field: value}), 0.0)
    assert not answer.accepted and answer.steps == () and len(answer.receipt.reason) < 120
    assert s.counts.malformed == 1 and s.counts.taken == 0
    assert (s.model, s.version, s.last_taken(0), s.state.control) == before


@pytest.mark.parametrize("client", [-1, 3, 0.0, "0", None, True, math.nan, HUGE, (0,)], ids=named)
def test_an_unknown_client_is_malformed(client: Any) -> None:
    s = begun(Rounds())
    assert not s.receive(replace(update(0), client=client), 0.0).accepted
    assert s.counts.malformed == 1


def test_numbers_of_numpy_are_numbers() -> None:
    s = begun(Rounds(), 1)
    fields = {"client": 0, "session": 1, "version": 0, "round": 0, "steps": 2}
    of_numpy = {name: np.int64(value) for name, value in fields.items()}
    sent = replace(update(0), samples=np.float32(3.0), a_norm1=np.float64(2.0), **of_numpy)
    assert s.receive(sent, 0.0).accepted
    assert type(s.last_taken(0)) is int


def test_limits_are_named_and_can_be_changed() -> None:
    few = Limits(samples=10, steps=3, session_jump=5)
    for changes in ({"samples": 11.0}, {"steps": 4, "a_norm1": 4.0}, {"session": 6}):
        s = begun(Rounds(), 1, limits=few, local=SGD(0.5, steps=4))
        assert not deliver(s, update(0, **changes))[0].accepted
    s = begun(Rounds(), 1, limits=few, local=SGD(0.5, steps=4))
    assert deliver(s, update(0, samples=10.0, steps=3, a_norm1=3.0, session=5))[0].accepted
    with pytest.raises(ConfigError, match="Limits.waiting must be a whole number >= 1; got 0"):
        Limits(waiting=0)
    with pytest.raises(ConfigError, match="limits must be a fedpace.limits.Limits; got 3"):
        Algorithm(local=SGD(0.5, steps=1), limits=3)  # type: ignore[arg-type]


def test_more_steps_than_the_local_rule_takes_are_not_believed() -> None:
    s = begun(Rounds())
    [answer] = deliver(s, update(0, steps=3, a_norm1=3.0))
    assert answer.receipt.reason == "client 0: steps 3 are not in 0..2"


def test_the_weight_of_the_gradients_belongs_to_the_steps() -> None:
    s = begun(Rounds(), aggregate=Normalised())
    [answer] = deliver(s, update(0, a_norm1=2000.0))
    assert answer.receipt.reason == "client 0: a_norm1 2000.0 does not belong to 2 steps"


# ---------------------------------------------------------------- samples


def ten(claims: dict[int, float], samples: list[float] | None) -> np.ndarray:
    """The model after one round of ten clients, client i moving entry i by one: the shares of the step."""
    algorithm = Algorithm(local=SGD(0.5, steps=2), aggregate=Weighted())
    s = Server(algorithm, np.zeros(10), 10, samples=samples)
    s.dispatch(0.0)
    for client in range(10):
        frames = {"update": frame(*np.eye(10)[client])}
        s.receive(update(client, frames=frames, samples=claims.get(client, 1.0)), 0.0)
    assert s.version == 1
    return s.model


def test_registered_samples_win_over_claims() -> None:
    assert ten({3: 1000.0}, samples=[1.0] * 10).tolist() == [0.1] * 10


def test_claims_count_where_nothing_was_registered() -> None:
    assert ten({3: 11.0}, samples=None)[3] == 11 / 20
    assert ten({3: 2e9}, samples=None)[3] == 0.0  # beyond limits.samples: refused


def test_samples_are_registered_at_joining() -> None:
    s = server(Rounds(), aggregate=Weighted())
    for client, samples in enumerate((1.0, 1.0, 2.0)):
        s.joined(client, samples)
    s.dispatch(0.0)
    *_, last = deliver(
        s, *(update(client, value, samples=9.0) for client, value in enumerate((0.0, 0.0, 8.0)))
    )
    assert step_of(last).x[0] == 4.0
    for bad in (math.nan, -1.0, HUGE, "1", 1e300):
        with pytest.raises(ConfigError, match="samples must be in"):
            s.joined(0, bad)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="client must be in 0..2; got 3"):
        s.joined(3)
    with pytest.raises(ConfigError, match="samples must be one number for each of 3 clients; got 2"):
        server(Rounds(), samples=[1.0, 2.0])


# ---------------------------------------------------------------- sessions


def test_a_jump_in_the_session_numbers_is_bounded_and_locks_nobody_out() -> None:
    s = begun(Rounds(), 1)
    assert not deliver(s, update(0, session=10**12))[0].accepted
    s.dispatch(0.0)
    assert deliver(s, update(0, session=1))[0].accepted


def test_a_client_that_lost_its_disk_is_told_where_to_go_on_and_does_not_hang_the_round() -> None:
    """It starts again at session 1, which was taken: the round goes on without it, the next one with it."""
    s = begun(Rounds(), 2)
    deliver(s, update(0), update(1))
    s.dispatch(0.0)
    deliver(s, update(1, session=2, version=1))
    lost_count = s.receive(update(0, session=1, version=1), 0.0)
    assert (lost_count.accepted, lost_count.receipt.taken) == (False, 1)
    assert step_of(lost_count).clients == (1,)
    s.dispatch(0.0)
    assert deliver(s, update(0, session=lost_count.receipt.taken + 1, version=2))[0].accepted


def test_a_repeated_message_does_not_touch_what_its_client_does_now() -> None:
    s = begun(Buffered(1, 1, select=Scripted([[0], [0]])))
    deliver(s, update(0))
    s.dispatch(0.0)
    again = s.receive(update(0), 0.0)
    assert (again.accepted, again.receipt.taken) == (False, 1)
    assert s.dispatch(0.0) == []
    assert deliver(s, update(0, session=2, version=1))[0].accepted


# ---------------------------------------------------------------- divergence


def test_replays_of_a_client_that_is_not_active_end_nothing() -> None:
    """The same NaN message three times, from a client whose place was freed by the first."""
    s = begun(Buffered(2, 2, select=Scripted([[0, 1], [2]])))
    for _ in range(3):
        assert not s.receive(update(0, frames={"update": not_finite_frame()}), 0.0).accepted
        s.dispatch(0.0)
    assert (s.counts.not_finite, s.counts.refused) == (1, 2)


def test_one_client_among_several_never_ends_a_run() -> None:
    s = server(Immediate(1, Scripted([[0]] * 9)), 2)
    for session in range(1, 10):
        s.dispatch(0.0)
        assert not s.receive(update(0, frames={}, session=session), 0.0).accepted
    assert s.counts.not_finite == 9


def test_two_clients_end_it_with_two_failures_where_one_makes_a_step() -> None:
    s = server(Immediate(1, Scripted([[0], [1]])))
    s.dispatch(0.0)
    s.receive(update(0, frames={}), 0.0)
    s.dispatch(0.0)
    with pytest.raises(
        DivergedError, match="the last 2 updates were not finite, after step 0; lower the learning rates"
    ):
        s.receive(update(1, frames={}), 0.0)


def test_the_only_client_may_end_a_run() -> None:
    s = server(Immediate(1), 1)
    s.dispatch(0.0)
    s.receive(update(0, frames={}), 0.0)
    s.dispatch(0.0)
    with pytest.raises(DivergedError, match="the last 2 updates were not finite"):
        s.receive(update(0, frames={}, session=2), 0.0)


def test_the_only_client_that_is_left_may_end_a_run() -> None:
    s = server(Immediate(1), 2)
    s.left(1)
    s.dispatch(0.0)
    s.receive(update(0, frames={}), 0.0)
    s.dispatch(0.0)
    with pytest.raises(DivergedError):
        s.receive(update(0, frames={}, session=2), 0.0)


def test_a_good_update_in_between_starts_the_count_anew() -> None:
    s = begun(Rounds())
    deliver(s, update(0, frames={}), update(1), update(2, frames={}))
    assert (s.version, s.counts.not_finite) == (1, 2)
    s.dispatch(0.0)
    deliver(s, *(update(client, frames={}, session=2, version=1) for client in (0, 1)))
    with pytest.raises(DivergedError, match="the last 3 updates"):
        s.receive(update(2, frames={}, session=2, version=1), 0.0)


def test_a_round_in_which_all_fail_is_diverged_and_one_of_two_is_not() -> None:
    s = begun(Rounds())
    deliver(s, update(0, frames={}), update(1, frames={}))
    with pytest.raises(DivergedError, match="the last 3 updates"):
        s.receive(update(2, frames={}), 0.0)


def test_steps_that_are_not_taken_count_like_updates_that_are_not_finite() -> None:
    """max(2, cohort) in a row: three steps of one update each, where three make a step, from several clients."""
    s = begun(Arrivals(1), server_opt=Momentum(lr=1e300))
    assert skipped(s.receive(update(0, 1e300), 0.0)).clients == (0,)
    with pytest.raises(DivergedError, match="the last 2 steps were not finite and not taken, after step 0"):
        s.receive(update(1, 1e300), 0.0)


def test_one_clients_steps_never_end_a_run() -> None:
    s = begun(Immediate(1, Scripted([[0]] * 6 + [[1]])), server_opt=Momentum(lr=1e300))
    for session in range(1, 6):
        skipped(s.receive(update(0, 1e300, session=session), 0.0))
        s.dispatch(0.0)
    assert (s.counts.steps_not_taken, s.counts.taken, s.version) == (5, 0, 0)


# ---------------------------------------------------------------- floods


@pytest.mark.parametrize("name", ["asysg", "defedavg_iid"])
def test_made_up_sessions_are_taken_once_per_version(name: str) -> None:
    """One client sends 199 sessions from version 0, all at once: one of them is taken."""
    algorithm = getattr(algorithms, name)(buffer=10)
    s = Server(algorithm, np.zeros(2), 20)
    s.dispatch(0.0)
    local = algorithm.local
    made_up = (
        Update(0, session, 0, 0, 1, local.a_norm1(1), 1.0, {"update": frame(1.0, 1.0)})
        for session in range(1, 200)
    )
    taken = [answer.accepted for answer in deliver(s, *made_up)]
    assert sum(taken) == 1 and taken[0]
    assert s.counts.malformed == 198


def test_waiting_updates_are_bounded() -> None:
    """Arrivals(distinct): one client that trains each of many versions and is never answered by a step."""
    s = begun(Arrivals(2, distinct=True), 4, limits=Limits(waiting=3))
    for version in range(7):
        s.retrieve(0, version, version)
        deliver(s, *(update(c, version=version, session=version + 1) for c in (1, 2)))
        s.dispatch(0.0)
    answers = deliver(s, *(update(0, version=version, session=version + 1) for version in range(7)))
    assert [answer.accepted for answer in answers] == [True] * 4 + [False] * 3
    assert answers[-1].receipt.reason == "client 0: too many of its updates wait for the next step"
    assert len(s.state.kept) == 3
    assert_sound(s)


def test_polled_clients_are_heard_when_asked_and_not_before() -> None:
    s = begun(Polled(1, Scripted([[1]])))
    flood = deliver(s, *(update(0, session=session) for session in range(1, 50)))
    assert not any(answer.accepted for answer in flood) and s.counts.refused == 49


# ---------------------------------------------------------------- vectors


def test_controls_that_overflow_together_leave_everything_finite() -> None:
    """SCAFFOLD in float32: each control of 3e38 is finite, their sum is not; the step is taken without them."""
    algorithm = Algorithm(local=SGD(0.5, steps=2), correction=Scaffold())
    s = Server(algorithm, np.zeros(2, np.float32), 3)
    s.dispatch(0.0)
    huge = {"update": frame(1.0, 1.0, kind=np.float32), "control": frame(3e38, 3e38, kind=np.float32)}
    assert [answer.accepted for answer in deliver(s, update(0, frames=huge), update(1, frames=huge))] == [
        False
    ] * 2
    fair = {**huge, "control": frame(3.0, 3.0, kind=np.float32)}
    step_of(s.receive(update(2, frames=fair), 0.0))
    assert s.state.control.c.tolist() == [1.0, 1.0] and s.counts.not_finite == 2
    assert_sound(s)


def test_an_update_that_would_freeze_an_adaptive_optimizer_is_not_taken() -> None:
    """AMSGrad in float32: 1e20 squared is infinite, and v-hat would never come down again."""
    algorithm = Algorithm(local=SGD(0.5, steps=2), pace=Arrivals(1), server_opt=AMSGrad(0.1))
    s = Server(algorithm, np.zeros(2, np.float32), 2)
    s.dispatch(0.0)
    huge = {"update": frame(1e20, 1e20, kind=np.float32)}
    assert skipped(s.receive(update(0, frames=huge), 0.0)).clients == (0,)
    assert not s.model.any() and np.isfinite(s.state.opt.v_hat).all() and s.counts.refused == 1
    fair = {"update": frame(1.0, 1.0, kind=np.float32)}
    moved = step_of(s.receive(update(1, frames=fair), 0.0))
    assert (moved.x > 0.01).all()


def test_a_clip_scales_long_updates_and_counts_them() -> None:
    s = begun(Rounds(), clip=5.0)
    long = {"update": frame(30.0, 40.0)}
    *_, last = deliver(
        s, update(0, frames=long), update(1, 0.0), update(2, frames={"update": frame(3.0, 4.0)})
    )
    step = step_of(last)
    np.testing.assert_allclose(step.x, [2.0, 8 / 3], rtol=1e-15)  # (3, 4) twice and 0, averaged
    assert step.clipped == s.counts.clipped == 1


@pytest.mark.parametrize("clip", [None, 20.0])
def test_what_an_aggregation_rule_scales_down_is_counted_once(clip: float | None) -> None:
    """Also an update that is longer than either bound, which is scaled down twice."""
    s = begun(Rounds(), clip=clip, aggregate=NormBound(5.0))
    at_bound, long, longest = (frame(3.0, 4.0), frame(6.0, 8.0), frame(30.0, 40.0))
    *_, last = deliver(
        s, *(update(client, frames={"update": each}) for client, each in enumerate((at_bound, long, longest)))
    )
    np.testing.assert_allclose(step_of(last).x, [3.0, 4.0], rtol=1e-15)
    assert step_of(last).clipped == s.counts.clipped == 2


def test_a_clip_works_where_squares_overflow_and_on_controls_too() -> None:
    s = begun(Rounds(), 1, clip=5.0, correction=Scaffold())
    frames = {"update": frame(3e300, 4e300), "control": frame(-6.0, 8.0)}
    step = step_of(s.receive(update(0, frames=frames), 0.0))
    np.testing.assert_allclose(step.x, [3.0, 4.0])
    np.testing.assert_allclose(s.state.control.c, [-3.0, 4.0])
    assert step.clipped == 1


@pytest.mark.parametrize("clip", [0.0, -1.0, math.inf, math.nan, "5"])
def test_a_clip_is_a_length(clip: Any) -> None:
    with pytest.raises(ConfigError, match="clip must be (a number )?> 0, or None"):
        Algorithm(local=SGD(0.5, steps=1), clip=clip)


def test_guards_are_printed_where_they_are_set() -> None:
    plain = Algorithm(local=SGD(0.5, steps=1), aggregate=Mean())
    assert "limits" not in repr(plain) and ", clip=" not in repr(plain).partition("pace=")[2]
    assert ", clip=2.0" in repr(replace(plain, clip=2.0)).partition("pace=")[2]
