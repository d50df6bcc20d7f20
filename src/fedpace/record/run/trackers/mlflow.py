"""MLflow: a run in an experiment, wherever `MLFLOW_TRACKING_URI` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

from fedpace.record.run.trackers.values import Values, now
from fedpace.sim.observer import Observer, StepRecord
from fedpace.vector import Vector

LONGEST = 5000  # letters of a parameter that MLflow keeps


class MLflow(Observer):
    """Metrics by step; the configuration as parameters."""

    def __init__(self, experiment: str, name: str, config: Mapping[str, str] | None = None) -> None:
        self._client, self._values = MlflowClient(), Values()
        known = self._client.get_experiment_by_name(experiment)
        number = known.experiment_id if known else self._client.create_experiment(experiment)
        self._run = (
            self._unfinished(number, name) or self._client.create_run(number, run_name=name).info.run_id
        )
        params = [Param(key.replace(" ", "_"), text[:LONGEST]) for key, text in (config or {}).items()]
        self._client.log_batch(self._run, params=params)

    def begun(self, metrics: Mapping[str, float]) -> None:
        self._log(0, self._values.initial(metrics))

    def recorded(self, record: StepRecord, x: Vector) -> None:
        self._log(record.version, self._values.of(record))

    def _log(self, step: int, values: Mapping[str, float]) -> None:
        at = int(1000 * now())
        metrics = [Metric(key, float(value), at, step) for key, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def _unfinished(self, experiment: str, name: str) -> str | None:
        """The run of this name that was interrupted, if there is one."""
        wanted = f"attributes.run_name = '{name}' and attributes.status = 'RUNNING'"
        found = self._client.search_runs([experiment], wanted, max_results=1)
        return found[0].info.run_id if found else None

    def resumed(self, steps: Sequence[StepRecord]) -> None:
        self._values.resume(steps)

    def close(self) -> None:
        self._client.set_terminated(self._run)
