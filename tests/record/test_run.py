from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedpace.record import Run


def test_final_has_last_metrics_totals_and_counters(run: Run) -> None:
    assert run.final == {
        "accuracy": 0.5,
        "loss": 1.0,
        "virtual_seconds": 4.5,
        "bytes_up": 300,
        "bytes_down": 120,
        "sessions": 6,
        "solved": 5,
    }


def test_final_is_the_last_evaluation_even_if_later_steps_were_not_evaluated(run: Run) -> None:
    assert replace(run, history=run.history[:2]).final["accuracy"] == 0.25


def test_a_run_without_steps_has_cost_nothing(run: Run) -> None:
    empty = replace(run, history=[], counters={})
    assert empty.final == dict.fromkeys(("accuracy", "loss")) | dict.fromkeys(
        ("virtual_seconds", "bytes_up", "bytes_down"), 0
    )


def test_json_has_exactly_the_documented_fields(run: Run) -> None:
    data = json.loads(run.to_json())
    assert list(data) == [
        "algorithm",
        "task",
        "seed",
        "rounds",
        "model_sha256",
        "final",
        "traffic",
        "history",
    ]
    assert (data["algorithm"], data["task"], data["seed"], data["rounds"]) == ("fedgm", "digits", 7, 3)
    assert data["history"][0] == {
        "version": 1,
        "virtual_seconds": 1.5,
        "clients": [0, 1],
        "staleness": [0, 1],
        "bytes_up": 100,
        "bytes_down": 40,
        "metrics": {"loss": 2.0, "accuracy": 0.25},
        "clipped": 0,
    }
    assert data["history"][1]["metrics"] == {}


def test_json_of_a_run_without_steps_is_still_json(run: Run) -> None:
    assert json.loads(replace(run, history=[]).to_json())["history"] == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32("nan")])
def test_json_has_null_where_a_number_is_not_finite(run: Run, value: float) -> None:
    last = replace(run.history[2], metrics={"loss": value})
    text = replace(run, history=[*run.history[:2], last]).to_json()
    data = json.loads(text, parse_constant=pytest.fail)
    assert data["final"]["loss"] is None
    assert data["history"][2]["metrics"] == {"loss": None}


def test_json_does_not_depend_on_how_long_it_took(run: Run) -> None:
    assert replace(run, summary={"real_seconds": 12.0}).to_json() == run.to_json()


def test_pandas_has_one_row_per_step_and_one_column_per_metric(run: Run) -> None:
    table = run.to_pandas()
    assert list(table["version"]) == [1, 2, 3]
    assert list(table["bytes_up"]) == [100, 100, 100]
    assert table["accuracy"].isna().tolist() == [False, True, False]
    assert "metrics" not in table


def test_saved_tensors_are_the_parts_of_the_model_by_name(run: Run, tmp_path) -> None:
    folder = run.save(tmp_path / "new" / "folder")
    tensors = load_file(folder / "model.safetensors")
    np.testing.assert_array_equal(tensors["weight"], [[0, 1], [2, 3]])
    np.testing.assert_array_equal(tensors["bias"], [4, 5])
    assert (folder / "run.json").read_text() == run.to_json()
    assert sorted(path.name for path in folder.iterdir()) == ["model.safetensors", "run.json"]


def test_kept_models_are_saved_by_version(run: Run, tmp_path) -> None:
    models = [np.full(6, t) for t in (1.0, 2.0, 3.0)]
    tensors = load_file(replace(run, models=models).save(tmp_path) / "models.safetensors")
    assert {version: float(x[0]) for version, x in tensors.items()} == {"1": 1.0, "2": 2.0, "3": 3.0}


def test_a_run_prints_as_one_line_of_what_came_out(run: Run) -> None:
    assert str(run) == (
        "fedgm on digits: loss 1, accuracy 0.5 after 3 steps, 4.50 s of virtual time, 300 B up and 120 B down"
    )


def test_the_seconds_of_a_deployment_are_no_virtual_time(run: Run, capsys) -> None:
    from fedpace.cli import show

    deployed = replace(run, summary={"compute": "deployed"})
    assert "4.50 s of time," in str(deployed) and run.clock == "virtual time"
    show.result(deployed)
    said = capsys.readouterr().out
    assert "\ntime " in said and "virtual" not in said


def test_a_flat_table_has_one_number_per_column(tmp_path) -> None:
    import pandas

    import fedpace

    task = fedpace.tasks.quadratics([0.0, 4.0, 8.0])
    rule = fedpace.algorithms.fedbuff(client_lr=0.1, steps=1, batch_size=None, buffer=2, concurrency=3)
    run = fedpace.simulate(rule, task, fedpace.sim.Population.half_normal(2.0), rounds=4)
    run.to_csv(tmp_path / "run.csv")
    found = pandas.read_csv(tmp_path / "run.csv")
    assert list(found.version) == [1, 2, 3, 4] and list(found.updates) == [2, 2, 2, 2]
    assert list(found.loss) == [record.metrics["loss"] for record in run.history]
    assert list(found.mean_staleness) == [sum(record.staleness) / 2 for record in run.history]
    assert found.bytes_up.sum() == run.bytes_up
    pytest.importorskip("pyarrow")
    run.to_parquet(tmp_path / "run.parquet")
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "run.parquet"), run.flat_table())
