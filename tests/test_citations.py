from __future__ import annotations

from typing import Any

import pytest

import fedpace
from fedpace import algorithms, citations
from fedpace.errors import ConfigError
from fedpace.link import Lazy
from fedpace.local import SGD, Scaffold
from fedpace.pace import Interrupting
from fedpace.server_opt import Momentum

CHOICES = (Lazy("lag", 1.0), Lazy("nla", 0.5), Interrupting(1), Interrupting(1, averaging=True))


@pytest.mark.parametrize("name", algorithms.__all__)
def test_every_algorithm_says_whom_to_cite(name: str) -> None:
    assert citations.papers(name)


def test_every_key_leads_to_a_paper() -> None:
    used = {key for keys in (*citations.ALGORITHMS.values(), *citations.RULES.values()) for key in keys}
    used |= {key for choice in CHOICES for key in citations._by_choice(choice)}
    assert used == set(citations.PAPERS)


def test_a_combination_without_a_name_is_cited_by_its_rules() -> None:
    plain = fedpace.Algorithm(local=SGD(lr=0.1, steps=1))
    assert fedpace.cite(plain) == ""
    with_momentum = fedpace.Algorithm(local=SGD(lr=0.1, steps=1), server_opt=Momentum(beta=0.9, nu=0.7))
    assert [paper.key for paper in citations.papers(with_momentum)] == ["sun2024", "ma2019"]


@pytest.mark.parametrize(
    ("rules", "key"),
    [
        ({"up": Lazy("lag", 1.0)}, "chen2018"),
        ({"up": Lazy("nla", 0.5)}, "bidirectional"),
        ({"correction": Scaffold()}, "karimireddy2020"),
        ({"pace": Interrupting(2, 1.0)}, "leconte2023"),
        ({"local": SGD(lr=0.1, steps=1, prox_mu=0.1)}, "li2020"),
    ],
    ids=str,
)
def test_rules_that_papers_share_are_told_apart(rules: dict[str, Any], key: str) -> None:
    mine = fedpace.Algorithm(**{"local": SGD(lr=0.1, steps=1), **rules})
    assert key in [paper.key for paper in citations.papers(mine)]


@pytest.mark.parametrize("what", ["ca2fl", "mf_ca2fl", algorithms.ca2fl()])
def test_ca2fl_is_cited_by_the_text_that_was_followed_and_by_the_one_of_record(what: Any) -> None:
    found = [
        (paper.venue.split()[0], paper.year) for paper in citations.papers(what) if "Cached" in paper.title
    ]
    assert found == [("Workshop", 2023), ("ICLR", 2024)]


def test_a_run_is_cited_like_its_algorithm() -> None:
    task = fedpace.tasks.quadratics([0.0, 1.0])
    run = fedpace.simulate(algorithms.fedgm(steps=1), task, rounds=1)
    assert fedpace.cite(run) == fedpace.cite("fedgm")


def test_bibtex_has_braces_around_the_title_so_that_capitals_survive() -> None:
    assert fedpace.cite("fedavg") == (
        "@misc{mcmahan2017,\n"
        "  author = {Brendan McMahan and Eider Moore and Daniel Ramage and Seth Hampson"
        " and Blaise Agüera y Arcas},\n"
        "  title = {{Communication-Efficient Learning of Deep Networks from Decentralized Data}},\n"
        "  howpublished = {AISTATS},\n"
        "  year = {2017},\n"
        "  eprint = {1602.05629},\n"
        "  archiveprefix = {arXiv}\n"
        "}"
    )


def test_a_reader_sees_surnames() -> None:
    assert str(citations.PAPERS["ma2019"]).startswith("Ma & Yarats, Quasi-hyperbolic Momentum")
    assert citations.PAPERS["sun2024"].short == "Sun et al."


def test_what_cannot_be_cited_is_named() -> None:
    with pytest.raises(ConfigError, match=r"did you mean fedgm\? .*; got 'fedgmm'"):
        fedpace.cite("fedgmm")
    with pytest.raises(ConfigError, match="cite takes an algorithm, its name or a Run; got 3"):
        fedpace.cite(3)
