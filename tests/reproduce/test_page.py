from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fedpace.reproduce import evidence, page
from fedpace.reproduce import pictures as draw
from fedpace.reproduce.experiment import Table, not_run
from fedpace.reproduce.run import run_all


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


def test_intervals_are_said_not_to_be_corrected() -> None:
    found = replace(not_run("a claim", ""), interval=(0.1, 0.2), p=0.06)
    text = page._what_intervals_are([found])
    assert "The verdict is by p, corrected for the number of claims (Holm)" in text
    assert "A claim holds where they are above" not in text
    assert page._what_intervals_are([not_run("a claim", "")]) == ""


@pytest.mark.parametrize(
    ("spread", "said"), [(None, False), ("bars without errors", False), ("bars", True), ("curve", True)]
)
def test_the_spread_is_explained_on_pages_whose_pictures_show_it(
    halves, kept, nobody, tmp_path, spread, said
) -> None:
    figure, [[axes]] = draw.sheet(1)
    known = run_all(halves, "quick", 2, kept, 1, nobody)
    if spread == "curve":
        draw.curve(axes, known.of("second"), "second", 0, metric="loss")
    elif spread is not None:
        errors = {"x": [1.0]} if spread == "bars" else None
        draw.bars(axes, ["second"], {"x": [2.0]}, errors)
    else:
        axes.plot([1, 2])
    drawn = replace(halves, procedure=replace(halves.procedure, pictures=lambda *_: {"one": figure}))
    text = page.write(drawn, "quick", known, tmp_path, "").read_text()
    assert "](quick-one.png)" in text and (page.BANDS in text) is said


def test_the_number_of_seeds_is_a_range_where_cells_differ(halves, kept, nobody, tmp_path) -> None:
    """The first cell has one seed at most, the second as many as are asked for."""
    one, two = (run_all(halves, "quick", seeds, kept, 1, nobody) for seeds in (1, 2))
    assert "2 runs, 1 seed, " in page.write(halves, "quick", one, tmp_path, "").read_text()
    assert "3 runs, 1 to 2 seeds, " in page.write(halves, "quick", two, tmp_path, "").read_text()
