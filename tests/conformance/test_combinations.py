"""The table of refusals is the refusal code, this test and a page of the manual."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fedpace import algorithms as a
from fedpace.aggregate import (
    Bucketed,
    Cached,
    CenteredClip,
    DynamicMean,
    GeometricMedian,
    Krum,
    Mean,
    Median,
    Mixing,
    Normalised,
    NormBound,
    PerStep,
    Pooled,
    TrimmedMean,
    Weighted,
)
from fedpace.algorithm import Algorithm
from fedpace.combinations import REFUSALS, manual
from fedpace.errors import ConfigError
from fedpace.link import EF21, Difference, EControl, ErrorFeedback, Lazy, Plain, TopK
from fedpace.local import SGD, Ditto, Scaffold, Torch
from fedpace.pace import (
    Arrivals,
    Buffered,
    ByShare,
    Immediate,
    Interrupting,
    Poisson,
    Polled,
    Replayed,
    Rounds,
    Uniform,
    WithReplacement,
)
from fedpace.privacy import ClientDP

LOCAL = SGD(0.1, steps=1)
DOCS = Path(__file__).parents[2] / "docs" / "combinations.md"


class NoWeights:
    """A local rule that says nothing about its gradient weights."""


REFUSED = [
    dict(pace=Rounds(2, ByShare()), aggregate=Weighted()),
    dict(pace=Buffered(2, 4, "batch", WithReplacement())),
    dict(local=SGD(0.1, epochs=(1, 3)), aggregate=Normalised(), up=ErrorFeedback(TopK(0.5))),
    dict(local=NoWeights(), aggregate=Normalised()),
    dict(local=NoWeights(), correction=Scaffold()),
    dict(pace=Rounds(4), aggregate=Krum(1)),
    dict(pace=Interrupting(2, 1.0), correction=Scaffold()),
    dict(personal=Ditto(), correction=Scaffold()),
    dict(personal=Ditto(), local=SGD(0.1, steps=1, momentum=0.5)),
    dict(aggregate=DynamicMean()),
    dict(local=Torch("torch.optim.Adam", steps=1, keep_state=True), pace=Replayed(3, 2)),
    dict(pace=Interrupting(2, 1.0, averaging=True), aggregate=Mean()),
    dict(pace=Interrupting(2, 1.0, averaging=True), aggregate=Pooled(None), up=Lazy("nla", tau=0.5)),
    dict(down=Difference(TopK(0.5)), aggregate=Mixing()),
    dict(down=Difference(TopK(0.5)), pace=Replayed(3, 2)),
    dict(up=Lazy("lag", tau=1.0), pace=Rounds(2)),
    dict(pace=Buffered(2, 4, "batch", Poisson())),
    dict(privacy=ClientDP(), aggregate=Cached()),
    dict(privacy=ClientDP(), aggregate=Normalised()),
    dict(privacy=ClientDP(), aggregate=Mixing()),
    dict(privacy=ClientDP(), aggregate=Median()),
    dict(privacy=ClientDP(), aggregate=Weighted()),
    dict(privacy=ClientDP(), correction=Scaffold()),
    dict(privacy=ClientDP(), up=Lazy("nla", tau=0.5)),
    dict(privacy=ClientDP(), pace=Rounds(2, WithReplacement())),
    dict(privacy=ClientDP(contributions=3), pace=Rounds(2)),
    dict(privacy=ClientDP(mechanism="tree"), pace=Polled(2, Uniform())),
]


@pytest.mark.parametrize(("refusal", "rules"), list(zip(REFUSALS, REFUSED, strict=True)))
def test_every_row_of_the_table_refuses_its_combination_with_its_reason(refusal, rules):
    with pytest.raises(ConfigError) as error:
        Algorithm(**({"local": LOCAL} | rules))
    assert refusal.why in str(error.value) and refusal.instead in str(error.value)


def test_scheme_a_and_scheme_b_are_both_allowed():
    a.fednova(select="share", weighting="uniform")
    a.fednova(select="uniform", weighting="samples")


def test_a_refused_part_is_refused_when_it_is_swapped_in_later():
    with pytest.raises(ConfigError, match="count twice over"):
        replace(a.fednova(), pace=Rounds(2, ByShare()))


@dataclass(frozen=True)
class OwnPlain:
    """A plain uplink of another type."""

    inner: Plain = Plain()

    def init(self, size, dtype):
        return None

    def send(self, v, state, context, rng):
        return self.inner.send(v, state, context, rng)

    def receive(self, frame, state, size):
        return self.inner.receive(frame, state, size)

    def resync(self, state):
        return None


def test_an_uplink_is_asked_for_its_state_and_not_for_its_type():
    quafl = a.quafl(clients_per_round=2)
    assert replace(quafl, up=OwnPlain()).uplink == OwnPlain()
    with pytest.raises(ConfigError, match="an uplink with state"):
        replace(quafl, up=ErrorFeedback(TopK(0.5)))


@pytest.mark.parametrize(
    "up", [Lazy("nla", tau=0.5), EF21(TopK(0.5)), EControl(TopK(0.5)), ErrorFeedback(TopK(0.5))], ids=str
)
def test_values_of_other_sessions_are_not_divided_by_todays_steps(up):
    """Where every session of a client has the same length there is one divisor; a plain codec sends today's value."""
    fixed = [dict(local=SGD(0.1, steps=(1, 4))), dict(local=SGD(0.1, epochs=2, batch_size=10))]
    changing = [dict(local=SGD(0.1, steps=((1, 4), (2, 2)))), dict(local=SGD(0.1, epochs=(1, 3)))]
    changing.append(dict(local=SGD(0.1, steps=6), pace=Interrupting(2, 1.0)))
    for aggregate in (Normalised(), PerStep()):
        for rules in fixed:
            Algorithm(aggregate=aggregate, up=up, **rules)
        for rules in changing:
            with pytest.raises(ConfigError, match="sessions of other lengths"):
                Algorithm(aggregate=aggregate, up=up, **rules)
            Algorithm(aggregate=aggregate, up=TopK(0.5), **rules)
            Algorithm(aggregate=Mean(), up=up, **rules)


@pytest.mark.parametrize("pace", [Rounds(2), Buffered(2, 4)], ids=str)
def test_lag_ps_wants_all_clients_every_round(pace):
    with pytest.raises(ConfigError, match="sum over all clients"):
        replace(a.lag(rule="ps"), pace=pace)


def test_the_manual_prints_the_table():
    assert DOCS.read_text() == manual()


ROBUST = [Median(), TrimmedMean(0.1), GeometricMedian(), Krum(1), CenteredClip(1.0), NormBound(1.0)]


@pytest.mark.parametrize("rule", [*ROBUST, Bucketed(2, Median()), PerStep(), Pooled()], ids=str)
def test_privacy_goes_with_a_sum_of_clipped_updates_and_nothing_else(rule):
    with pytest.raises(ConfigError, match="privacy, and"):
        Algorithm(local=LOCAL, aggregate=rule, privacy=ClientDP())


@pytest.mark.parametrize(
    "rules",
    [
        dict(pace=Rounds(2)),
        dict(pace=Rounds(2, Poisson())),
        dict(pace=Buffered(2, 4, "batch")),
        dict(pace=Immediate(4), aggregate=Mean("poly")),
        dict(pace=Arrivals(2, distinct=True)),
        dict(pace=Polled(2, Uniform())),
        dict(aggregate=Weighted(), privacy=ClientDP(sample_limit=100)),
        dict(up=ErrorFeedback(TopK(0.5)), down=Difference(TopK(0.5))),
        dict(pace=Buffered(2, 4, "batch"), privacy=ClientDP(contributions=3)),
    ],
    ids=str,
)
def test_privacy_is_allowed_with_any_pacing_that_counts_a_client_once(rules):
    Algorithm(**({"local": LOCAL, "privacy": ClientDP()} | rules))


@pytest.mark.parametrize(
    "pace", [Buffered(2, 4, "immediate"), Arrivals(2), Polled(2), Rounds(2, ByShare())], ids=str
)
def test_privacy_refuses_pacing_in_which_a_client_can_count_twice(pace):
    with pytest.raises(ConfigError, match="count twice in a step"):
        Algorithm(local=LOCAL, pace=pace, privacy=ClientDP())
