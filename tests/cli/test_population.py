from __future__ import annotations

import pytest

from fedpace.cli.population import population
from fedpace.errors import ConfigError
from fedpace.sim import Population, presets


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        (None, None),
        ("defedavg", presets.defedavg()),
        ("uniform-slowdown:1,10", presets.defedavg(low=1, high=10)),
        ("defedavg:cifar10", presets.defedavg("cifar10")),
        ("half-normal:5", Population.half_normal(5)),
        ("half-normal:5,2", Population.half_normal(5, base_s=2)),
        ("ca2fl", presets.ca2fl()),
        ("exponential:0.5", Population.exponential(0.5)),
    ],
)
def test_presets_and_laws_by_name(text: str | None, devices: Population | None) -> None:
    assert population(text) == devices


@pytest.mark.parametrize(
    "text", ["fast", "half-normal", "half-normal:x", "half-normal:1,2,3", "ca2fl:1", "uniform-slowdown:1"]
)
def test_anything_else_is_answered_with_what_there_is(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        population(text)
    assert str(error.value) == (
        "--population must be one of defedavg, defedavg:cifar10, ca2fl, uniform-slowdown:LOW,HIGH, "
        f"half-normal:SCALE[,BASE], exponential:MEAN, FILE; got {text!r}"
    )


def test_devices_for_a_data_set_the_paper_does_not_have() -> None:
    with pytest.raises(
        ConfigError, match="did you mean cifar10. .*must be one of cifar10, fashionmnist; got 'cifar100'"
    ):
        population("defedavg:cifar100")


def test_a_file_of_times_in_any_order(tmp_path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("client,compute_s,up_s\n1,4,0.5\n0,2,\n")
    assert population(str(path)) == Population.from_times([2, 4], up_s=[0, 0.5], down_s=[0, 0])


def test_a_file_of_windows(tmp_path) -> None:
    path = tmp_path / "windows.csv"
    path.write_text("client,from,to\n0,0,5\n1,2,\n")
    devices = population(str(path))
    assert devices is not None and devices.windows == ((0, 0.0, 5.0), (1, 2.0, float("inf")))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n", r"must have columns client, compute_s .*; got \['a', 'b'\]"),
        ("client,compute_s\n0,fast\n", "must hold numbers; got could not convert string to float: 'fast'"),
        ("client,compute_s\n0,1\n2,1\n", "one row for each client from 0 on"),
        ("client,compute_s\n0,0\n", "compute_s must be > 0 seconds"),
        ("client,from,to\n0,0,5\n0,4,6\n", "must not overlap"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_in_one_line(tmp_path, content: str, message: str) -> None:
    path = tmp_path / "population.csv"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message) as error:
        population(str(path))
    assert "\n" not in str(error.value)
