"""The example of a study of one's own, with fewer steps."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path

import pytest

from fedpace.check import check_server_opt
from fedpace.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_study.py"

pytestmark = pytest.mark.skipif(
    not EXAMPLE.is_file(), reason="the examples are not installed with the package"
)


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("own_study", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["own_study"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["own_study"]


def test_lion_keeps_what_server_optimizers_promise(example) -> None:
    check_server_opt(example.Lion())


def test_four_algorithms_and_five_seeds_of_an_lstm(example, tmp_path) -> None:
    found = example.study(rounds=2, store=None)
    assert list(found.rows) == ["FedAvg", "FedBuff", "Lion", "buffered Lion"] and found.seeds == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert {each.state for own in found.rows.values() for each in own} == {"done"}
    first = [own[0].facts["initial model"] for own in found.rows.values()]
    assert len(set(first)) == 1 and found.rows["Lion"][1].facts["initial model"] != first[0]
    found.report(tmp_path / "page.html", "waves")
    page = (tmp_path / "page.html").read_text()
    assert all(row in page for row in found.rows) and "Target: accuracy 0.85" in page and "Partition" in page


def test_the_file_gives_the_numbers_of_its_python_twin(example, tmp_path) -> None:
    short = ["--rounds", "2", "--seeds", "1", "--workers", "1", "--no-store", "--quiet"]
    file, text = EXAMPLE.with_suffix(".toml"), tmp_path / "found.csv"
    assert main(["compare", str(file), *short, "--csv", str(text)]) == 0
    with open(text) as lines:
        found = {line["row"]: float(line["loss"]) for line in csv.DictReader(lines)}
    twin = example.study(rounds=2, seeds=1, store=None)
    assert found == {row: own[0].run.metrics["loss"] for row, own in twin.rows.items()}
