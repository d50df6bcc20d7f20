"""What trackers are told. Their libraries are extras, so the two that need a server are stood in for."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedpace.errors import ConfigError
from fedpace.record.run.trackers import require, tracker
from fedpace.sim.observer import StepRecord

X = np.zeros(1)
STEPS = [StepRecord(t, 0.5 * t, (0, 1), (0, 2), 10, 5, {"loss": 1 / t} if t != 2 else {}) for t in (1, 2, 3)]
TOLD = [
    {"loss": 2.0, "virtual_seconds": 0.0, "bytes_up": 0, "bytes_down": 0},
    {"loss": 1.0, "virtual_seconds": 0.5, "bytes_up": 10, "bytes_down": 5, "staleness": 1.0},
    {"virtual_seconds": 1.0, "bytes_up": 20, "bytes_down": 10, "staleness": 1.0},
    {"loss": 1 / 3, "virtual_seconds": 1.5, "bytes_up": 30, "bytes_down": 15, "staleness": 1.0},
]


def stand_in(patch: pytest.MonkeyPatch, ours: str, **modules: dict[str, Any]) -> None:
    """Modules under the names of a library that need not be there."""
    for name, content in modules.items():
        module = ModuleType(name.replace("__", "."))
        module.__dict__.update(content)
        patch.setitem(sys.modules, module.__name__, module)
    patch.delitem(sys.modules, f"fedpace.record.run.trackers.{ours}", raising=False)


def run_with_an_interruption(text: str) -> None:
    """The initial model and steps 1 to 3, the last of them twice because it came after the checkpoint."""
    told = tracker(text, "night", {"initial model": "x"})
    told.begun({"loss": 2.0})
    for step in STEPS:
        told.recorded(step, X)
    told.resumed(STEPS[:2])
    told.recorded(STEPS[2], X)
    told.close()


def test_weights_and_biases(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    run = SimpleNamespace(
        log=lambda values, step: seen.append((step, values)), finish=lambda: seen.append("finished")
    )
    stand_in(monkeypatch, "wandb", wandb={"init": lambda **options: seen.append(options) or run})
    run_with_an_interruption("wandb:project")
    began = {
        "project": "project",
        "name": "night",
        "id": "night",
        "resume": "allow",
        "config": {"initial model": "x"},
    }
    assert seen == [began, *enumerate(TOLD), (3, TOLD[3]), "finished"]


class Client:
    """An MLflow server with one experiment."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.unfinished: list[Any] = []

    def get_experiment_by_name(self, name: str) -> Any:
        return None

    def create_experiment(self, name: str) -> str:
        return name

    def search_runs(self, experiments: list[str], wanted: str, max_results: int) -> list[Any]:
        return self.unfinished

    def create_run(self, experiment: str, run_name: str) -> Any:
        return SimpleNamespace(info=SimpleNamespace(run_id=f"{experiment}/{run_name}"))

    def log_batch(self, run: str, metrics: Any = (), params: Any = ()) -> None:
        values = {step: {k: v for k, v, _, at in metrics if at == step} for *_, step in metrics}
        self.seen.append((run, dict(params), values))

    def set_terminated(self, run: str) -> None:
        self.seen.append(run)


@pytest.mark.parametrize("interrupted", [False, True])
def test_mlflow(monkeypatch: pytest.MonkeyPatch, interrupted: bool) -> None:
    client = Client()
    if interrupted:
        client.unfinished = [SimpleNamespace(info=SimpleNamespace(run_id="before"))]
    entities = {"Metric": lambda *values: values, "Param": lambda *values: values}
    tracking = {"MlflowClient": lambda: client}
    stand_in(monkeypatch, "mlflow", mlflow={}, mlflow__entities=entities, mlflow__tracking=tracking)
    run_with_an_interruption("mlflow")
    run = "before" if interrupted else "fedpace/night"
    told = [(run, {}, {t: values}) for t, values in enumerate(TOLD)]
    assert client.seen == [(run, {"initial_model": "x"}, {}), *told, told[3], run]


def test_tensorboard(tmp_path: Any) -> None:
    pytest.importorskip("tensorboard")
    reader = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    run_with_an_interruption(f"tensorboard:{tmp_path}")
    seen = reader.EventAccumulator(str(tmp_path / "night"))
    seen.Reload()
    assert [(e.step, e.value) for e in seen.Scalars("loss")] == [
        (0, 2.0),
        (1, 1.0),
        (3, pytest.approx(1 / 3)),
    ]
    assert [e.value for e in seen.Scalars("bytes_up")] == [0, 10, 20, 30]


def test_tensorboard_without_a_folder_asks_for_one() -> None:
    for text in ("tensorboard", "tensorboard:"):
        with pytest.raises(
            ConfigError, match="--track tensorboard must name a folder: --track tensorboard:logs"
        ):
            require(text)


def test_an_unknown_tracker_is_refused() -> None:
    with pytest.raises(ConfigError, match="--track must be one of mlflow, tensorboard, wandb; got 'wandbb'"):
        require("wandbb:x")


def test_a_tracker_without_its_library_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "wandb")
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"--track wandb needs a library: pip install 'fedpace\[wandb\]'"):
        require("wandb")
