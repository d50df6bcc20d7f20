from __future__ import annotations

import inspect

import pytest

from fedpace import algorithms, tasks
from fedpace.cli.parameters import MEANINGS


def test_everything_there_is_is_listed(fedpace) -> None:
    said = fedpace("list")
    assert said.code == 0 and said.err == ""
    first_words = {line.split()[0] for line in said.out.splitlines() if line.strip()}
    assert {*algorithms.__all__, *tasks.TASKS, *tasks.MODELS, *tasks.PARTITIONS, "defedavg"} <= first_words


def test_every_algorithm_has_a_line_and_a_citation(fedpace) -> None:
    rows = fedpace("list", "algorithms").out
    for name in algorithms.__all__:
        [row] = [line for line in rows.splitlines() if line.split()[:1] == [name]]
        described, year = row.split()[1:-1], row.split()[-1]
        assert len(described) > 4 and year.isdigit()


@pytest.mark.parametrize("section", ["tasks", "models", "partitions", "populations"])
def test_one_section_alone(fedpace, section: str) -> None:
    assert fedpace("list", section).out.startswith(section.removesuffix("s"))


def test_one_algorithm_shows_parameters_and_papers(fedpace) -> None:
    said = fedpace("list", "ca2fl").out
    assert "cache_bits" in said and "arXiv" not in said
    assert "Wang et al., Tackling the Data Heterogeneity" in said


def test_every_parameter_is_explained_and_nothing_else() -> None:
    functions = [getattr(algorithms, name) for name in algorithms.__all__]
    assert {
        name for function in functions for name in inspect.signature(function).parameters
    } == MEANINGS.keys()


def test_an_unknown_name_is_answered_with_the_nearest(fedpace) -> None:
    said = fedpace("list", "ca2f")
    assert said.code == 2 and said.err.startswith("fedpace list: did you mean ca2fl? ")
