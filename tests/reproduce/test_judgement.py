"""Verdicts by paired tests, corrected over the claims of one figure, and recomputed from the committed CSV."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from fedpace.errors import ConfigError
from fedpace.reproduce import EDITIONS, NAMES, evidence, experiment, page
from fedpace.reproduce import pictures as draw
from fedpace.reproduce.comparison import (
    Comparison,
    above,
    as_cheap,
    cheaper,
    no_worse,
    to_target,
    training_loss,
)
from fedpace.reproduce.experiment import OWN, ClaimSource, Finding, Verdict, judged, not_run
from fedpace.reproduce.judgement import settled
from fedpace.reproduce.results import Results
from fedpace.reproduce.tuning import read_choices

from .conftest import outcome, results

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def sides(*differences: float, margin: float | None = None) -> Comparison:
    seeds = tuple(range(len(differences)))
    return Comparison("a above b", seeds, differences, (0.0,) * len(differences), margin)


def claim(*comparisons: Comparison, name: str = "a claim", **more: object) -> Finding:
    return Finding(name, "Figure 1", "", comparisons=comparisons, **more)  # type: ignore[arg-type]


def verdict(finding: Finding, edition: str = "quick") -> Verdict:
    return settled(edition, [finding])[0].verdict


def test_an_interval_on_the_claimed_side_reproduces_and_on_the_other_contradicts() -> None:
    """1, 2, 3: mean 2, error 1/sqrt 3, t = 3.46 on 2 degrees: p = 0.074. 2, 2.1, 2.2: t = 36, p < 0.001."""
    assert verdict(claim(sides(1.0, 2.0, 3.0))) is Verdict.UNDECIDED
    assert verdict(claim(sides(2.0, 2.1, 2.2))) is Verdict.REPRODUCED
    assert verdict(claim(sides(-2.0, -2.1, -2.2))) is Verdict.CONTRADICTED


def test_the_p_of_two_pairs_is_that_of_the_cauchy_distribution() -> None:
    """Differences 1 and 3: t = 2 with one degree of freedom, p = 1 - 2 atan(2) / pi."""
    assert sides(1.0, 3.0).p == pytest.approx(1 - 2 * math.atan(2) / math.pi)


def test_two_pairs_decide_nothing() -> None:
    assert sides(2.0, 2.01).p < 0.01
    assert verdict(claim(sides(2.0, 2.01))) is Verdict.UNDECIDED


def test_a_claim_of_several_comparisons_is_as_strong_as_its_weakest() -> None:
    strong, weak = sides(2.0, 2.1, 2.2), sides(1.0, 2.0, 3.0)
    [found] = settled("quick", [claim(strong, weak)])
    assert (found.verdict, found.p, found.interval) == (Verdict.UNDECIDED, weak.p, weak.interval)


def test_a_claim_that_too_few_seeds_decide_costs_its_figure_nothing() -> None:
    one, pair = sides(0.9, 1.0, 1.5), sides(1.0, 3.0)
    decided, open_ = settled("quick", [claim(one, name="a"), claim(pair, name="b")])
    assert (decided.verdict, decided.p) == (Verdict.REPRODUCED, one.p)
    assert (open_.verdict, open_.p) == (Verdict.UNDECIDED, None)


@pytest.mark.parametrize("name", NAMES)
def test_every_committed_claim_is_still_made(name: str) -> None:
    """A claim that was dropped from the code would count for ever; one alone depends on what came out."""
    for edition, rows in evidence.read_verdicts(RESULTS / name).items():
        known = Results(choices=read_choices(RESULTS / name, edition))
        made = {finding.claim for finding in experiment(name).procedure.findings(edition, known)}
        assert [row.claim for row in rows if row.claim not in made] == []


def test_one_comparison_against_a_claim_contradicts_it() -> None:
    assert verdict(claim(sides(2.0, 2.1, 2.2), sides(-2.0, -2.1, -2.2))) is Verdict.CONTRADICTED


def test_claims_of_one_figure_pay_for_their_number() -> None:
    """p = 0.031 alone; times two where another claim of the figure is as weak."""
    one = sides(0.9, 1.0, 1.5)
    assert one.p is not None and 0.025 < one.p < 0.05
    apart = settled("quick", [claim(one, name="a", family="1"), claim(one, name="b", family="2")])
    together = settled("quick", [claim(one, name="a", family="1"), claim(one, name="b", family="1")])
    assert {found.verdict for found in apart} == {Verdict.REPRODUCED}
    assert [found.p for found in together] == [pytest.approx(2 * one.p)] * 2
    assert {found.verdict for found in together} == {Verdict.UNDECIDED}
    ours = claim(one, name="b", family="1", source=ClaimSource.OWN)
    beside = settled("quick", [claim(one, name="a", family="1"), ours])
    assert {found.verdict for found in beside} == {Verdict.REPRODUCED}


def test_one_seed_of_the_full_edition_indicates_and_no_more() -> None:
    assert verdict(claim(sides(2.0)), "full") is Verdict.INDICATED
    assert verdict(claim(sides(-2.0)), "full") is Verdict.UNDECIDED
    assert verdict(claim(sides(2.0)), "quick") is Verdict.UNDECIDED


def test_as_good_as_is_an_equivalence_and_can_be_contradicted() -> None:
    assert verdict(claim(sides(-0.01, 0.0, 0.01, margin=0.5))) is Verdict.REPRODUCED
    assert verdict(claim(sides(-1.0, 0.0, 1.0, margin=0.5))) is Verdict.UNDECIDED
    assert verdict(claim(sides(2.0, 2.1, 2.2, margin=0.5))) is Verdict.CONTRADICTED


def test_exact_claims_and_claims_without_runs_keep_their_verdict() -> None:
    exact = Finding("x", "1", "1", judged(True))
    assert settled("quick", [exact, not_run("y", OWN)]) == [
        exact,
        Finding("y", OWN, "", Verdict.NOT_RUN, source=ClaimSource.OWN),
    ]


def test_a_claim_without_a_pair_of_runs_is_undecided() -> None:
    [found] = settled("quick", [claim(sides())])
    assert (found.verdict, found.seeds, found.p) == (Verdict.UNDECIDED, 0, None)


def test_runs_are_paired_by_seed() -> None:
    made = results({"a": [outcome([0.5]), outcome([0.7])], "b": [outcome([0.4])]})
    found = above(made, "a", "b", lambda run: run.final())
    assert (found.seeds, found.larger, found.smaller) == ((0,), (0.5,), (0.4,))


REACHES, LATE = [0.2, 0.6, 0.7], [0.1, 0.2, 0.3, 0.6]  # after 4 and after 8 seconds
SHORT, LONG = [0.1], [0.1] * 6  # given up after 2 and after 12


@pytest.mark.parametrize(
    ("less", "more", "known"),
    [
        (REACHES, LATE, (8.0, 4.0)),
        (LATE, REACHES, (4.0, 8.0)),
        (REACHES, LONG, (12.0, 4.0)),  # a bound above the rival's cost tells who is first
        (LONG, REACHES, (4.0, 12.0)),  # so does a bound against the claim
        (REACHES, SHORT, (2.0, 2.0)),  # a bound below it does not
        (SHORT, REACHES, (2.0, 2.0)),
        (SHORT, LONG, (2.0, 2.0)),  # nobody gets there
        (LONG, SHORT, (2.0, 2.0)),
    ],
)
def test_a_run_that_missed_the_target_tells_no_more_than_it_knows(less, more, known) -> None:
    made = results({"less": [outcome(less)], "more": [outcome(more)]})
    found = cheaper(made, "less", "more", 0.5, draw.seconds)
    assert (*found.larger, *found.smaller) == known


def test_if_nobody_reaches_the_target_nothing_is_decided() -> None:
    made = results({"fast": [outcome(SHORT)] * 5, "slow": [outcome(LONG)] * 5})
    assert verdict(claim(cheaper(made, "fast", "slow", 0.5, draw.seconds))) is Verdict.UNDECIDED
    assert verdict(claim(as_cheap(made, "fast", "fast", 0.5, draw.seconds))) is Verdict.UNDECIDED
    measure = to_target(0.5, draw.seconds)
    assert (measure(outcome(SHORT)), measure(outcome(REACHES))) == (None, 4.0)


def test_seeds_are_not_chosen_by_what_diverged() -> None:
    """Where a run has no value the others of its comparison decide nothing either."""
    lower = [replace(outcome([0.5]), training_loss=1.0 + seed / 100) for seed in range(4)]
    gone = replace(outcome([0.1]), ended="diverged", training_loss=None)
    higher = [replace(outcome([0.5]), training_loss=2.0) for _ in range(4)]
    whole = above(results({"a": higher, "b": lower}), "a", "b", training_loss())
    partly = above(results({"a": higher, "b": [*lower[:3], gone]}), "a", "b", training_loss())
    assert verdict(claim(whole)) is Verdict.REPRODUCED
    assert (partly.seeds, verdict(claim(partly))) == ((), Verdict.UNDECIDED)


def test_costs_are_compared_as_ratios() -> None:
    """The target after 1 and 2 evaluations, on three seeds: a ratio of 2 exactly."""
    made = results({"fast": [outcome([0.6])] * 3, "slow": [outcome([0.1, 0.6])] * 3})
    found = cheaper(made, "fast", "slow", 0.5, draw.seconds)
    assert found.interval == pytest.approx((2.0, 2.0))
    assert verdict(claim(found)) is Verdict.REPRODUCED
    same = as_cheap(made, "fast", "slow", 0.5, draw.seconds)
    assert verdict(claim(same)) is Verdict.CONTRADICTED


def test_not_worse_than_allows_the_margin() -> None:
    made = results({"a": [outcome([0.50])] * 3, "b": [outcome([0.504])] * 3})
    found = no_worse(made, "a", "b", lambda run: 100 * run.final(), 0.5)
    assert found.difference.mean == pytest.approx(0.1)


def test_an_interval_of_a_claim_about_accuracy_and_bytes_is_one_of_points() -> None:
    points, count = sides(2.0, 2.1, 2.2), sides(10_000.0, 30_000.0, 20_000.0)
    [found] = settled("quick", [claim(points, replace(count, what="bytes up: a, b"))])
    assert found.interval == points.interval
    assert found.p == count.p > (points.p or 0)
    [only] = settled("quick", [claim(replace(count, what="bytes up: a, b"))])
    assert only.interval == count.interval


def test_parts_of_one_figure_or_table_are_corrected_together() -> None:
    """Panels, data sets and splits: Holm counts all claims of Figure 1."""
    close = sides(1.0, 2.0, 0.5, 1.5)
    alone, *_ = settled("quick", [claim(close, family="Figure 1b")])
    parts = [
        claim(close, name=name, family=name) for name in ("Figure 1b", "Figure 1(c, d)", "Figure 1, T 1000")
    ]
    assert [found.p for found in settled("quick", parts)] == pytest.approx([3 * (alone.p or 0)] * 3)
    other = settled("quick", [*parts, claim(close, name="d", family="Figure 10")])
    assert other[-1].p == alone.p


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/*-claims.csv")), ids=lambda path: path.parent.name)
def test_committed_families_are_figures_tables_and_theorems(path: Path) -> None:
    edition = path.name.removesuffix("-claims.csv")
    known = evidence.from_csv(path.read_text(encoding="utf-8"))
    papers = [f.claim for f in evidence.read_verdicts(path.parent)[edition] if f.source == "paper"]
    families = {known[claim][0] for claim in papers if claim in known}
    assert [
        name for name in families if not re.fullmatch(r"(Figure|Table|Theorem)s? \d+(, \d+)*", name)
    ] == []


# ------------------------------------------------------------------------------------ recomputed from the CSV


CLAIMS = [
    claim(sides(0.1, 0.2, 1 / 3), name="a, with a comma", family="Figure 1"),
    claim(sides(2.0, 2.1, 2.2), sides(2.0, 2.1, 2.2, margin=0.5), name="b", family="Figure 1"),
    not_run("c", OWN),
]


def test_a_comparison_without_pairs_survives_its_csv() -> None:
    """Else its claim would be judged again by the others alone."""
    found = claim(sides(2.0, 2.1, 2.2), replace(sides(), what="c above d"))
    [(_, comparisons)] = evidence.from_csv(evidence.to_csv([found])).values()
    assert comparisons == found.comparisons


def test_values_survive_their_csv_to_the_last_digit() -> None:
    distinct = [CLAIMS[0], claim(sides(2.0, 2.1), name="b", family="Figure 2")]
    known = evidence.from_csv(evidence.to_csv(distinct))
    assert known == {found.claim: (found.family, found.comparisons) for found in distinct}


def test_verdicts_are_recomputed_from_the_csv_alone(tmp_path) -> None:
    first = settled("quick", CLAIMS[::2])
    (tmp_path / evidence.table_name("quick")).write_text(evidence.to_csv(first))
    evidence.write_verdicts(tmp_path, "quick", [Finding(f.claim, f.published, f.ours) for f in first[:1]])
    [again] = page.rejudge(tmp_path, "quick")
    assert (again.verdict, again.p, again.seeds) == (first[0].verdict, first[0].p, 3)


def test_the_file_of_verdicts_has_the_agreed_fields(tmp_path) -> None:
    evidence.write_verdicts(tmp_path, "quick", settled("quick", CLAIMS[::2]))
    rows = json.loads((tmp_path / evidence.VERDICTS).read_text())["quick"]
    fields = ["claim", "published", "ours", "verdict", "seeds", "p", "interval", "source", "note"]
    assert [list(row) for row in rows] == [fields] * 2
    assert (rows[1]["seeds"], rows[1]["p"], rows[1]["interval"], rows[1]["source"]) == (0, None, None, "own")


def test_a_page_without_its_csv_cannot_be_judged_again(tmp_path) -> None:
    with pytest.raises(ConfigError, match="must exist to judge from it"):
        evidence.rejudged(tmp_path, "quick")


def test_a_page_shows_the_verdicts_it_was_given_anew(halves, kept, nobody, tmp_path) -> None:
    from fedpace.reproduce.run import run_all

    known = run_all(halves, "quick", 1, kept, 1, nobody)
    written = page.write(halves, "quick", known, tmp_path, "")
    before = written.read_text()
    written.write_text(before.replace("✔ reproduced", "✘ contradicted"))
    page.rejudge(tmp_path / "halves", "quick")
    assert written.read_text() == before


def test_a_claim_that_came_after_a_page_is_listed_as_not_run(halves, kept, nobody, tmp_path) -> None:
    from fedpace.reproduce.run import run_all

    written = page.write(halves, "quick", run_all(halves, "quick", 1, kept, 1, nobody), tmp_path, "")
    before = halves.procedure.findings
    later = replace(
        halves.procedure,
        findings=lambda *asked: [*before(*asked), not_run("a later claim", "Figure 2", "soon.")],
    )
    first, second = page.rejudge(tmp_path / "halves", "quick", replace(halves, procedure=later))
    assert (first.verdict, second.verdict) == (Verdict.REPRODUCED, Verdict.NOT_RUN)
    assert "| a later claim | Figure 2 |  | – not run |" in written.read_text()
    assert len(evidence.read_verdicts(tmp_path / "halves")["quick"]) == 2
    page.rejudge(tmp_path / "halves", "quick", halves)  # named no longer
    assert len(evidence.read_verdicts(tmp_path / "halves")["quick"]) == 1


def test_a_claim_without_runs_has_the_source_and_the_published_values_of_the_code(tmp_path) -> None:
    """Else both editions of a page count it, one as the paper's and one as ours; what was run keeps what it has."""
    ran = Finding("b", "old", "1", Verdict.NOT_TESTED, source=ClaimSource.OWN)
    before = [replace(not_run("a", OWN), source=ClaimSource.OWN), ran]
    evidence.write_verdicts(tmp_path, "full", before)
    (tmp_path / evidence.table_name("full")).write_text(evidence.to_csv([]))
    now = [not_run("a", "52 %"), not_run("b", "new")]
    first, second = evidence.rejudged(tmp_path, "full", now)
    assert (first.published, first.source) == ("52 %", ClaimSource.PAPER)
    assert (second.published, second.source) == ("old", ClaimSource.OWN)


@pytest.mark.parametrize("name", NAMES)
def test_no_claim_is_a_papers_in_one_edition_and_ours_in_the_other(name: str) -> None:
    """Else it is counted twice: fedpace reproduce NAME --verdicts takes both from the code."""
    pages = evidence.read_verdicts(RESULTS / name)
    sources = {(finding.claim, finding.source) for rows in pages.values() for finding in rows}
    assert len(sources) == len({claim for claim, _ in sources})


@pytest.mark.parametrize("name", NAMES)
def test_committed_verdicts_list_every_claim_of_their_experiment(name: str) -> None:
    """Else: fedpace reproduce NAME --verdicts."""
    for edition, committed in evidence.read_verdicts(RESULTS / name).items():
        named = [found.claim for found in experiment(name).procedure.findings(edition, Results())]
        assert [claim for claim in named if claim not in {found.claim for found in committed}] == []


@pytest.mark.parametrize("name", NAMES)
def test_committed_choices_are_those_of_grids_that_the_experiment_has(name: str) -> None:
    """A choice of a grid that is gone would still keep its seeds from being judged: delete it from tuning.json."""
    for edition in EDITIONS:
        grids = {grid.name for grid in experiment(name).procedure.grids(edition)}
        assert read_choices(RESULTS / name, edition).keys() <= grids
