from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace.errors import ConfigError
from fedpace.sim import Between, Inverse, Population, presets
from fedpace.sim.resampled import Resampled


def test_seconds_of_a_session_and_of_a_transfer() -> None:
    """solve_s + steps step_s, and fixed seconds + bytes per rate, per client or for all."""
    devices = Population(
        solve_s=(1.0, 2.0),
        step_s=0.5,
        up_s=(0.0, 1.0),
        up_s_per_byte=0.25,
        down_s=3.0,
        down_s_per_byte=(0.0, 0.5),
    ).bind(2, seed=0)
    assert [devices.compute_s(client, 1, 4) for client in (0, 1)] == [3.0, 4.0]
    assert [devices.upload_s(client, 8) for client in (0, 1)] == [2.0, 3.0]
    assert [devices.download_s(client, 8) for client in (0, 1)] == [3.0, 7.0]
    assert devices.slowest_download_s(8) == 7.0
    assert devices.fastest_cycle_s(8, steps=4) == 3.0 + 2.0 + 3.0
    assert devices.expected_step_s(1) == 2.5


def test_where_nothing_is_said_a_session_takes_one_second() -> None:
    assert Population(drop=0.5) == Population(solve_s=1.0, drop=0.5)
    assert Population(step_s=0.5).solve_s == Population(noise_s=(0.5, 1.0)).solve_s == 0.0
    assert Population.half_normal(np.int64(5)) == Population.half_normal(5)


@pytest.mark.parametrize(
    "devices",
    [
        Population(solve_s=0.0),
        Population(solve_s=(1.0, 0.0)),
        Population.half_normal(0),
        Population.exponential(0),
    ],
    ids=str,
)
def test_a_session_always_takes_time(devices: Population) -> None:
    with pytest.raises(ConfigError, match=r"the seconds of a session must be > 0 for every client; got 0\.0"):
        devices.bind(2, 0)


def test_noise_is_drawn_anew_for_every_session_and_named_by_it() -> None:
    devices = Population(solve_s=1.0, noise_s=2.0).bind(3, seed=4)
    drawn = [devices.compute_s(client, session, 1) for client in range(3) for session in range(1, 4)]
    assert len(set(drawn)) == 9 and min(drawn) > 1.0
    assert devices.compute_s(2, 1, 1) == drawn[6]
    assert Population(solve_s=1.0, noise_s=2.0).bind(3, seed=5).compute_s(2, 1, 1) != drawn[6]


@pytest.mark.parametrize(("noise", "mean"), [("half_normal", np.sqrt(2 / np.pi)), ("exponential", 1.0)])
def test_noise_has_its_mean(noise: str, mean: float) -> None:
    devices = Population(noise_s=3.0, noise=noise).bind(1, seed=0)
    drawn = [devices.compute_s(0, session, 1) for session in range(2000)]
    assert np.mean(drawn) == pytest.approx(3 * mean, abs=5 * np.std(drawn) / np.sqrt(2000))
    assert devices.expected_step_s(0) == pytest.approx(3 * mean)


def test_sessions_take_after_observed_ones() -> None:
    """solve_s + 3 steps of 2 s, at half or one and a half times that, with the extra seconds of the same session."""
    noise = Resampled(((0.5, 1.5), (1.0,)), ((0.0, 4.0), (-9.0,)))
    devices = Population(solve_s=1.0, step_s=2.0, noise=noise).bind(2, seed=0)
    drawn = [devices.compute_s(0, session, 3) for session in range(2000)]
    assert set(drawn) == {1 + 3.0, 1 + 9.0 + 4.0} and np.mean(drawn) == pytest.approx(9.0, abs=0.5)
    assert devices.expected_step_s(0, steps=3) == pytest.approx(9.0 / 3)
    assert 0 < devices.compute_s(1, 0, 3) < 1e-9  # never less than no time
    other = Population(solve_s=1.0, step_s=2.0, noise=replace(noise, order=1)).bind(2, seed=0)
    assert [other.compute_s(0, session, 3) for session in range(2000)] != drawn
    with pytest.raises(ConfigError, match="clients of Resampled must be 3; got 2"):
        Population(step_s=2.0, noise=noise).bind(3, seed=0)


def test_a_law_is_drawn_once_per_client_and_seed() -> None:
    population = Population(solve_s=Between(1.0, 5.0))
    first, again, other = (population.bind(500, seed).solve_s for seed in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()
    assert 1.0 <= first.min() < first.max() <= 5.0
    assert abs(first.mean() - 3.0) < 5 * first.std() / np.sqrt(500)


class Constant:
    """A law of one's own."""

    def draw(self, clients: int, rng: np.random.Generator) -> np.ndarray:
        return np.full(clients, 7.0)


def test_a_law_of_ones_own() -> None:
    assert Population(solve_s=Constant()).bind(3, 0).compute_s(2, 1, 1) == 7.0


def test_a_speed_that_is_uniform_makes_a_time_that_is_not() -> None:
    """The other reading of DeFedAvg's [1, 5]: c = 5 / u has the mean 5 ln(5) / 4 = 2.01 instead of 3."""
    drawn = Population.uniform_slowdown(reading="speed").bind(4000, 0).step_s / 0.0017
    assert drawn.min() >= 1.0 and drawn.max() <= 5.0
    assert drawn.mean() == pytest.approx(5 * np.log(5) / 4, abs=5 * drawn.std() / np.sqrt(4000))


def test_one_number_for_a_million_clients_takes_no_room() -> None:
    devices = Population.from_times(1.0).bind(1_000_000, 0)
    assert devices.solve_s.strides == (0,) and devices.compute_s(999_999, 1, 1) == 1.0


def test_lost_sessions_have_their_share_and_the_same_ones_are_lost_again() -> None:
    devices = Population(solve_s=1.0, drop=0.25).bind(1, 0)
    lost = [devices.drops(0, session) for session in range(4000)]
    assert abs(np.mean(lost) - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4000)
    assert lost == [devices.drops(0, session) for session in range(4000)]
    assert not any(Population(solve_s=1.0).bind(1, 0).drops(0, session) for session in range(9))


def test_devices_of_the_papers() -> None:
    cifar = presets.defedavg("cifar10").bind(50, 0)
    assert cifar.step_s.min() >= 0.00314 and cifar.step_s.max() <= 5 * 0.00314
    assert cifar.upload_s(0, 3_530_000) == pytest.approx(0.0706, abs=1e-12)
    assert presets.ca2fl() == Population(solve_s=Between(0.0, 5.0), noise_s=1.0)
    assert presets.ca2fl(Between(5.0, 5.0)) == Population(solve_s=Between(5.0, 5.0), noise_s=1.0)
    assert Population.exponential(2.0) == Population(noise_s=2.0, noise="exponential")
    assert Population.half_normal(Between(5.0, 5.0)) == Population(noise_s=Between(5.0, 5.0))


@pytest.mark.parametrize(("dataset", "step_s"), [("fashionmnist", 0.0017), ("cifar10", 0.00314)])
def test_the_papers_network_takes_the_papers_seconds(dataset: str, step_s: float) -> None:
    """c_i K x 17.0e6 / 10e9 and c_i K x 31.4e6 / 10e9, bit for bit; also where a task does not tell its cost."""
    paper = Population.uniform_slowdown(flops_per_step=step_s * 1e10).bind(50, 3).step_s
    preset = presets.defedavg(dataset)
    for cost in (presets.MULTIPLY_ACCUMULATES[dataset], None):
        devices = preset.for_model(lambda cost=cost: cost)
        assert np.array_equal(devices.bind(50, 3).step_s, paper)
        assert str(devices.step_s) == "as DeFedAvg's CNN"


def test_other_networks_take_seconds_in_proportion_to_their_multiply_accumulates() -> None:
    """64 x 32 + 32 x 10 of an MLP against 4,267,008: a step of 17.0e6 x 2368 / 4267008 operations."""
    task = fedpace.tasks.load("digits", clients=4)
    preset = presets.defedavg()
    run = fedpace.simulate(
        fedpace.algorithms.fedavg(steps=3, batch_size=4), task, preset, rounds=1, evaluate_every=None
    )
    slowest = preset.bind(4, 0).step_s * 2368 / 4_267_008
    transfer = preset.bind(4, 0).upload_s(0, run.bytes_up // 4) + preset.bind(4, 0).download_s(
        0, run.bytes_down // 4
    )
    assert run.virtual_seconds == pytest.approx(3 * slowest.max() + transfer, rel=1e-12)
    assert run.summary["local_step"] == (
        "0.000555 times that of DeFedAvg's CNN (2,368 of 4,267,008 multiply-accumulates)"
    )


def test_devices_whose_seconds_are_given_stay_as_they_are() -> None:
    devices = Population.uniform_slowdown()
    assert devices.for_model(lambda: 1) is devices


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Population.from_times(0.0), "compute_s must be > 0 seconds; got 0.0"),
        (lambda: Population.from_times((1.0, -2.0)), "compute_s must be > 0 seconds"),
        (
            lambda: Population.from_times(1.0, up_s=-1.0),
            "Population.up_s must be >= 0 seconds, and finite; got -1.0",
        ),
        (lambda: Population.from_times("slow"), "compute_s must be > 0 seconds; got 'slow'"),
        (
            lambda: Population().with_windows([(0, 1.0)]),
            r"windows must be \(client, from, to\), ...; got \[\(0, 1.0\)\]",
        ),
        (lambda: Population(step_s=np.inf), "Population.step_s must be >= 0 seconds, and finite"),
        (lambda: Population(solve_s=np.nan), "Population.solve_s must be >= 0 seconds, and finite"),
        (
            lambda: Population(noise="gamma"),
            "Population.noise must be half_normal or exponential; got 'gamma'",
        ),
        (lambda: Population(mode="both"), "Population.mode must be serial or overlap; got 'both'"),
        (lambda: Population(drop=1.0), r"Population.drop must be a probability in \[0, 1\); got 1.0"),
        (lambda: Population.uniform_slowdown(0.0, 5.0), "low must be > 0; got 0.0"),
        (lambda: Population.uniform_slowdown(5.0, 1.0), r"high must be >= low \(5\); got 1.0"),
        (
            lambda: Population.uniform_slowdown(link_bits_per_second=0),
            "link_bits_per_second must be > 0; got 0",
        ),
        (
            lambda: Population.uniform_slowdown(reading="both"),
            "reading must be slowdown or speed; got 'both'",
        ),
        (lambda: Between(-1.0, 2.0), "must be 0 <= low <= high"),
        (lambda: Inverse(1.0, 0.0, 2.0), "must be 0 < low <= high"),
        (lambda: presets.defedavg("mnist"), "must be one of cifar10, fashionmnist; got 'mnist'"),
    ],
)
def test_devices_that_cannot_be_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_one_value_per_client_means_as_many_as_there_are() -> None:
    with pytest.raises(
        ConfigError, match="Population.solve_s must be one value for each of 3 clients; got '2 values'"
    ):
        Population.from_times((1.0, 2.0)).bind(3, 0)
