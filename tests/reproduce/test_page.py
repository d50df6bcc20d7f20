from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fedpace.errors import ConfigError
from fedpace.reproduce import evidence, page
from fedpace.reproduce.experiment import Table, not_run
from fedpace.reproduce.run import run_all
from fedpace.reproduce.tuning import Grid, final_accuracy

from .conftest import cell


def test_the_page_states_claim_published_ours_and_verdict(halves, kept, nobody, tmp_path) -> None:
    known = run_all(halves, "quick", 1, kept, 1, nobody)
    text = page.write(halves, "quick", known, tmp_path, "fedpace reproduce halves").read_text()
    assert "| x is 1.75 \\| after 3 | 1.75 | [(1.75,)] | ✔ reproduced |  |  |  |" in text
    assert "- *x is 1.75 | after 3*: exactly." in text
    assert "fedpace reproduce halves" in text
    assert "| rounds | 3 | 3 |" in text


def test_editions_link_to_each_other_once_both_are_there(halves, kept, nobody, tmp_path) -> None:
    known = run_all(halves, "quick", 1, kept, 1, nobody)
    assert "full.md" not in page.write(halves, "quick", known, tmp_path, "").read_text()
    assert "(README.md)" in page.write(halves, "full", known, tmp_path, "").read_text()
    assert "(full.md)" in page.write(halves, "quick", known, tmp_path, "").read_text()


def test_the_figures_of_every_run_lie_beside_the_page(halves, kept, nobody, tmp_path) -> None:
    known = run_all(halves, "quick", 2, kept, 1, nobody)
    page.write(halves, "quick", known, tmp_path, "")
    lines = (tmp_path / "halves" / "quick.csv").read_text().splitlines()
    assert len(lines) == 1 + 3
    assert lines[1].startswith('"first",0,finished,3,3,')


def test_the_index_has_a_line_per_claim_and_counts_verdicts(halves, kept, nobody, tmp_path) -> None:
    known = run_all(halves, "quick", 1, kept, 1, nobody)
    page.write(halves, "quick", known, tmp_path, "")
    text = page.write_index([halves], tmp_path).read_text()
    assert "| claims of papers | 1 | 0 | 0 | 0 | 0 | 0 |" in text
    assert "| [halves](halves/README.md) | quick | x is 1.75 \\| after 3 | 1.75 |" in text


def test_verdicts_of_the_other_edition_stay(halves, kept, nobody, tmp_path) -> None:
    known = run_all(halves, "quick", 1, kept, 1, nobody)
    for edition in ("quick", "full"):
        page.write(halves, edition, known, tmp_path, "")
    assert set(json.loads((tmp_path / "halves" / evidence.VERDICTS).read_text())) == {"quick", "full"}


def test_a_p_that_no_test_can_measure_is_shown_as_a_bound() -> None:
    shown = [page._p(replace(not_run("a claim", ""), p=p)) for p in (None, 0.0, 1e-20, 3.14159e-5)]
    assert shown == ["", "< 1e-12", "< 1e-12", "3.1e-05"]


def test_a_table_in_markdown() -> None:
    table = Table("", ("a", "b"), [("1", "x|y")])
    assert page.markdown(table) == "| a | b |\n| --- | :---: |\n| 1 | x\\|y |"


def test_a_page_is_not_replaced_by_one_made_from_fewer_runs(halves, kept, nobody, tmp_path) -> None:
    known = run_all(halves, "quick", 1, kept, 1, nobody)
    page.write(halves, "quick", known, tmp_path, "")
    page.require_no_fewer(halves, "quick", known, tmp_path)
    fewer = replace(known, outcomes=dict(list(known.outcomes.items())[:-1]))
    with pytest.raises(ConfigError, match="give another folder with --out, your runs are kept"):
        page.require_no_fewer(halves, "quick", fewer, tmp_path)


def test_runs_that_chose_a_setting_are_not_missed_once_the_choice_is_committed(
    halves, kept, nobody, tmp_path
) -> None:
    known = run_all(halves, "quick", 2, kept, 1, nobody)
    page.write(halves, "quick", known, tmp_path, "")
    tuned = replace(known, outcomes={"second": known.outcomes["second"]})
    with pytest.raises(ConfigError):
        page.require_no_fewer(halves, "quick", tuned, tmp_path)
    grid = Grid("first", (1.0,), lambda rate, other: cell("first"), final_accuracy(1))
    chosen = replace(halves, procedure=replace(halves.procedure, grids=lambda edition: [grid]))
    page.require_no_fewer(chosen, "quick", tuned, tmp_path)
    fewer = replace(tuned, outcomes={"second": dict(list(known.outcomes["second"].items())[:1])})
    with pytest.raises(ConfigError):
        page.require_no_fewer(chosen, "quick", fewer, tmp_path)
