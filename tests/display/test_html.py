"""What notebooks show of algorithms, runs, partitions and figures."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

import fedpace
from fedpace.display import html
from fedpace.tasks.partition import IID, Classes, Dirichlet, DirichletByClient, Quantity, Shards

TASK = fedpace.tasks.quadratics([4, 8, 16])


@pytest.fixture(scope="module")
def run() -> fedpace.Run:
    return fedpace.simulate(
        fedpace.algorithms.fedavg(client_lr=0.5, steps=1), TASK, rounds=4, evaluate_every=3
    )


def parsed(page: str) -> ElementTree.Element:
    """As XML, which every tag must be closed for."""
    return ElementTree.fromstring(page.replace("&ensp;", " "))


def words(page: str) -> str:
    return " ".join("".join(parsed(page).itertext()).split())


def test_a_run_shows_its_metrics_from_the_initial_model_on_and_what_they_cost(run: fedpace.Run) -> None:
    page = run._repr_html_()
    assert "fedavg on quadratics" in words(page) and "loss 56 →" in words(page)
    curves = [line for line in parsed(page).iter() if line.tag == "polyline"]
    assert len(curves) == 2  # loss and distance
    assert len(curves[0].attrib["points"].split()) == 3  # initial, step 3, step 4
    assert "server steps4virtual time4.00 s" in words(page)


def test_a_run_that_ended_early_says_where_it_was_evaluated(run: fedpace.Run) -> None:
    short = replace(run, history=[*run.history[:3], replace(run.history[3], metrics={})], stopped="<enough>")
    text = words(short._repr_html_())
    assert "last at step 3" in text and "<enough>" in text
    assert "never" in words(replace(run, history=[replace(r, metrics={}) for r in run.history])._repr_html_())


def test_an_algorithm_shows_its_rules_in_order_and_defaults_pale() -> None:
    page = fedpace.algorithms.fedgm(server_lr=2.0)._repr_html_()
    text = words(page)
    stops = ["client scheduling", "local training", "uplink", "downlink", "aggregation", "server step"]
    assert sorted(stops, key=text.index) == stops
    assert re.search(r'margin-left:.6em;">lr=2\.0', page)
    assert re.search(r'opacity:.55">nesterov=False', page)
    assert "correction" not in text and "correction" in words(fedpace.algorithms.scaffold()._repr_html_())


@pytest.mark.parametrize(
    "rule", [IID(), Quantity(0.3), Dirichlet(0.1), DirichletByClient(0.1), Classes(2), Shards(2)], ids=repr
)
def test_a_partition_rule_is_shown_by_an_example(rule) -> None:
    page = rule._repr_html_()
    assert repr(rule) in words(page) and "40 clients with" in words(page)
    boxes = [box for box in parsed(page).iter() if box.tag == "rect"]
    if rule == Classes(2):
        assert len(boxes) == 40 + 2 * 40  # a bar and two classes for each client


def test_a_rule_that_the_example_does_not_fit_is_plain_text() -> None:
    assert Classes(11)._repr_html_() is None


def test_a_task_shows_how_its_data_is_split() -> None:
    task = fedpace.tasks.load("digits", clients=5, partition="classes:2")
    assert "5 clients with" in words(task._repr_html_())


def test_own_data_is_shown_where_it_is_labelled_and_in_memory() -> None:
    x = torch.zeros(6, 2)
    labelled = [(x, torch.arange(6) % 3), (x, torch.zeros(6, dtype=torch.long))]
    task = fedpace.tasks.from_torch(nn.Linear(2, 3), nn.CrossEntropyLoss(), labelled, labelled[0])
    page = task._repr_html_()
    assert page is not None and "2 clients with 6 samples each" in words(page)
    assert len([box for box in parsed(page).iter() if box.tag == "rect"]) == 2 + 3 + 1
    numbers = [(x, torch.zeros(6, 3))]
    assert fedpace.tasks.from_torch(nn.Linear(2, 3), nn.MSELoss(), numbers, numbers[0])._repr_html_() is None


def test_values_are_text_and_nothing_else() -> None:
    assert html.text("<b>&\x1b[1m") == "&lt;b&gt;&amp;" + html.text("\x1b[1m") and "\x1b" not in html.text(
        "\x1b[1m"
    )


def test_figures_are_pictures(run: fedpace.Run) -> None:
    assert run.plot()._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
