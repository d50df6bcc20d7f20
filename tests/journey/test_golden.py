"""Results stay: every row of the golden table is what its run gives now (`golden.py` says how to change one)."""

import copy
import json

import golden
import golden_rows
import pytest

import fedpace

ROWS = golden_rows.read(golden.TABLE)


@pytest.mark.parametrize("name", golden.CELLS)
def test_a_row_is_what_its_run_gives(name):
    found = golden_rows.differences(ROWS[name], golden.CELLS[name].run())
    assert not found, "\n".join([name, *found])


def test_the_table_has_every_cell_in_order_and_nothing_else():
    assert list(ROWS) == list(golden.CELLS)


def test_every_named_algorithm_meets_every_kind_of_population_and_precision():
    kinds = ("equal", "unequal", "come-and-go")
    wanted = {
        f"{a}/{p}/{t}" for a in fedpace.algorithms.__all__ for p in kinds for t in ("quadratics", "digits")
    }
    assert wanted <= set(ROWS)


def test_stalled_and_diverged_runs_are_rows_too():
    kinds = {row["error"].split(":")[0] for row in ROWS.values() if "error" in row}
    assert kinds == {"StalledError", "DivergedError"}


ROW = ROWS["fedbuff/unequal/quadratics"]


@pytest.mark.parametrize("column", range(len(golden_rows.COLUMNS)), ids=golden_rows.COLUMNS)
def test_a_changed_step_is_named(column):
    changed = copy.deepcopy(ROW)
    changed["steps"][2][column] = -1
    (found,) = golden_rows.differences(ROW, changed)
    assert found.startswith(f"step 3, {golden_rows.COLUMNS[column]}: was ") and found.endswith("is -1")


def test_a_probe_may_be_off_by_rounding_and_no_more():
    for name, tolerance in (("fedbuff/unequal/quadratics", 1e-12), ("fedbuff/unequal/digits", 1e-6)):
        for factor, seen in ((0.5, 0), (2.0, 1), (float("nan"), 1)):
            changed = copy.deepcopy(ROWS[name])
            changed["probes"][7] += factor * tolerance * changed["norm"]
            assert len(golden_rows.differences(ROWS[name], changed)) == seen


def test_errors_precision_missing_steps_and_other_bits_are_told():
    assert golden_rows.differences(ROW, ROW | {"error": "StalledError: why"}) == [
        "error: was None, is StalledError: why"
    ]
    assert golden_rows.differences(ROW, ROW | {"dtype": "float32"}) == ["dtype: was float64, is float32"]
    assert golden_rows.differences(ROW, ROW | {"steps": ROW["steps"][:-1]}) == [
        "number of steps: was 5, is 4"
    ]
    assert golden_rows.differences(ROW | {"sha256": "a"}, ROW | {"sha256": "b"}) == [
        "model: other bits (off by 0)"
    ]


def test_writing_touches_the_rows_it_is_told_to(tmp_path):
    path, mine, other = tmp_path / "golden.json", "fedavg/equal/quadratics", "fedgm/equal/quadratics"
    wrong = ROWS | {name: ROWS[name] | {"norm": 0.0} for name in (mine, other)} | {"gone": {}}
    path.write_text(json.dumps(wrong))
    assert golden.rewrite(["fedavg/*/quadratics"], path) == [f"{mine}: written"]
    assert golden_rows.read(path) == ROWS | {other: wrong[other], "gone": {}}


def test_two_versions_are_compared_in_the_rows_of_the_older(tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    golden_rows.write({"a": ROW | {"sha256": "1"}, "b": ROW, "c": ROW}, old)
    golden_rows.write({"a": ROW | {"sha256": "2"}, "b": ROW, "d": ROW}, new)
    assert golden.compare(old, new) == ["a: model: other bits (off by 0)", "c: is gone"]
