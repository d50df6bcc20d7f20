"""The result of a simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from fedpace.disk import files
from fedpace.errors import require
from fedpace.privacy.spent import COVERED, OPERATOR, Privacy
from fedpace.record.run import timeline, usage
from fedpace.record.run.inference import NONE, OtherTensors
from fedpace.record.run.table_file import write_table
from fedpace.record.run.units import format_bytes, format_seconds
from fedpace.sim.observer import Activity, Fate, StepRecord
from fedpace.vector import Layout, Vector, model_sha256

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from torch import Tensor, nn

    from fedpace.algorithm import Algorithm
    from fedpace.client_spread import ClientSpread
    from fedpace.record.run.live import LivePage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Run:
    """One experiment: configuration, history, final model and cost.

    >>> import fedpace
    >>> task = fedpace.tasks.quadratics([1.0, 2.0, 6.0])
    >>> run = fedpace.simulate(fedpace.algorithms.fedavg(steps=2), task, rounds=3)
    >>> [record.version for record in run.history], run.bytes_up, sorted(run.metrics)
    ([1, 2, 3], 252, ['distance', 'loss'])
    """

    algorithm: Algorithm
    task: str
    seed: int
    rounds: int  # server steps asked for; `history` has those that were taken
    history: Sequence[StepRecord]
    model: Vector  # flat, after the last step
    layout: Layout  # what lies where in `model`
    models: Sequence[Vector] | None = None  # after every step, with `keep_models`
    counters: Mapping[str, int] = field(default_factory=dict)  # outcomes of sessions and updates
    summary: Mapping[str, Any] = field(
        default_factory=dict
    )  # facts about this execution, real seconds among them
    traffic: Mapping[str, Any] = field(default_factory=dict)  # "up", "down" and, one by one, "clients"
    activities: Sequence[Activity] = ()
    fates: Sequence[Fate] = ()
    initial_metrics: Mapping[str, float] = field(default_factory=dict)  # of the model before the first step
    other_tensors: OtherTensors = NONE  # what the trained module holds beside the parameters in `model`
    client_metrics: Mapping[int, ClientSpread] = field(default_factory=dict)  # by version, where measured
    stopped: str | None = None  # why it ended on purpose before its last step; None: all steps were taken

    @property
    def name(self) -> str:
        """The algorithm's name, or `custom` for a combination of rules without one."""
        return self.algorithm.name or "custom"

    @property
    def metrics(self) -> Mapping[str, float]:
        """Those of the last evaluation; empty if there was none."""
        return next((record.metrics for record in reversed(self.history) if record.metrics), {})

    @property
    def evaluated(self) -> int | None:
        """The server step after which `metrics` were measured; None if there was no evaluation."""
        return next((record.version for record in reversed(self.history) if record.metrics), None)

    @property
    def privacy(self) -> Privacy | None:
        """The guarantee of a private run: epsilon, delta, accountant, adjacency, ...; None without privacy."""
        spent = self.summary.get("privacy")
        return None if spent is None else Privacy.of(spent)

    @property
    def parent(self) -> Mapping[str, str]:
        """Where the model that it started from comes from; empty if from the task."""
        return dict(self.summary.get("parent", {}))

    @property
    def virtual_seconds(self) -> float:
        """When the last server step was taken."""
        return self.history[-1].virtual_seconds if self.history else 0.0

    @property
    def clock(self) -> str:
        """What its seconds are: virtual time, or just time in a deployment."""
        return "time" if self.summary.get("compute") == "deployed" else "virtual time"

    @property
    def bytes_up(self) -> int:
        return sum(record.bytes_up for record in self.history)

    @property
    def bytes_down(self) -> int:
        return sum(record.bytes_down for record in self.history)

    @property
    def final(self) -> dict[str, float | int | None]:
        """Last metrics (None where the task has none), totals and counters."""
        return {
            "accuracy": None,
            "loss": None,
            **self.metrics,
            "virtual_seconds": self.virtual_seconds,
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            **self.counters,
        }

    def __str__(self) -> str:
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items()) or "not evaluated"
        earlier = f" (at step {self.evaluated})" if self.evaluated not in (None, len(self.history)) else ""
        return (
            f"{self.name} on {self.task}: {metrics}{earlier} after {len(self.history)} steps,"
            f" {format_seconds(self.virtual_seconds)} of {self.clock},"
            f" {format_bytes(self.bytes_up)} up and {format_bytes(self.bytes_down)} down"
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from fedpace.record.run.html import run_html

        return run_html(self)

    # ------------------------------------------------------------ the trained model

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that inference needs, by name: trained parameters, statistics, buffers, frozen parameters."""
        return {**self.layout.split(self.model), **self.other_tensors()}

    def state_dict(self) -> dict[str, Tensor]:
        """`arrays` as torch's tensors, for `module.load_state_dict`.

        BatchNorm's statistics are those of the last evaluation; a model that was not evaluated has them estimated now.
        """
        from fedpace.compute.inference import tensors

        return tensors(self.arrays())

    def to_module(self, module: nn.Module) -> nn.Module:
        """Put the trained model into `module`, one like that which was trained; it is returned in evaluation mode."""
        from fedpace.compute.inference import into_module

        return into_module(module, self.arrays())

    # ------------------------------------------------------------ as a table, as text, on disk

    def to_pandas(self) -> DataFrame:
        """One row per server step; every metric is a column."""
        import pandas

        rows = map(_plain, self.history)
        return pandas.DataFrame([{**row.pop("metrics"), **row} for row in rows])

    def to_csv(self, path: str | Path) -> Path:
        """One line per server step, one number per column: metrics, bytes, updates, mean and largest staleness.

        Of a private run also epsilon, and the mark `disclosure`: history is the operator's, and not covered.
        """
        return write_table(self.flat_table(), path)

    def to_parquet(self, path: str | Path) -> Path:
        """The same as a Parquet file (`pip install 'fedpace[parquet]'`)."""
        return write_table(self.flat_table(), path, parquet=True)

    def flat_table(self) -> DataFrame:
        """One row per server step, one number per column."""
        import pandas

        table = pandas.DataFrame([_flat(record) for record in self.history])
        if self.privacy is not None:
            table["disclosure"] = OPERATOR
        return table

    def to_json(self, *, named: bool = False) -> str:
        """The whole run but its model, one line per server step. The same seed gives identical text.

        `named`: with the name under which it is saved, as `run`.
        """
        head = {
            "algorithm": self.name,
            "task": self.task,
            "seed": self.seed,
            "rounds": self.rounds,
            **({"run": self.summary.get("name")} if named else {}),
            "model_sha256": model_sha256(self.model),
            "final": self.final,
            "traffic": self.traffic,
            **({} if self.privacy is None else {"privacy": {**self.privacy.plain(), "covers": COVERED}}),
        }
        lines = [f' "{key}": {files.to_json(value)}' for key, value in head.items()]
        steps = ",\n".join(f"  {files.to_json(_plain(record))}" for record in self.history)
        return "{\n" + ",\n".join(lines) + f',\n "history": [\n{steps}\n ]\n}}\n'

    def save(self, folder: str | Path | None = None) -> Path:
        """Write `run.json`, `model.safetensors` (tensors by name) and, where kept, `models.safetensors`.

        The model of a private run carries its account. Without a folder, into one here that is named after algorithm,
        task and seed.
        """
        from safetensors.numpy import save

        from fedpace.record.run import model_file

        own = f"{self.name or 'custom'}-{self.task}-{self.seed}"
        target = files.require_folder(own if folder is None else folder, "folder to save to")
        files.write(target / "run.json", self.to_json().encode())
        files.write(target / "model.safetensors", model_file.encode(self.arrays(), self.privacy))
        if self.models is not None:
            each = {str(record.version): x for record, x in zip(self.history, self.models, strict=True)}
            files.write(target / "models.safetensors", save(each))
        return target

    # ------------------------------------------------------------ pictures

    def plot(self, path: str | Path | None = None) -> Figure:
        """Accuracy, loss and own metrics over steps, virtual time and traffic; saved too if a path is given."""
        from fedpace.record.report import plot

        figure = plot.curves({self.name: self}, title=f"{self.name} on {self.task}")
        if path is not None:
            plot.save(figure, path)
        return figure

    def live(self) -> LivePage:
        """The page of this run, which must be saved, in a notebook (`pip install 'fedpace[ui]'`)."""
        from fedpace.record.run.live import live_page

        name = self.summary.get("name")
        require(
            name is not None, "a run on the live page", self.name, "a saved one: simulate(..., store=NAME)"
        )
        return live_page(str(name))

    def timeline(self) -> list[timeline.Stretch]:
        """The client timeline with gaps filled in: ready for `pandas.DataFrame(run.timeline())`."""
        return timeline.stretches(self.activities, self.fates, self.history)

    def clients(self) -> list[usage.Usage]:
        """Usage of every client: busy share, updates used and wasted, staleness."""
        return usage.usage(self.timeline())


def _plain(record: StepRecord) -> dict[str, Any]:
    """A record's fields; epsilon only where there is one."""
    plain = asdict(record)
    return plain if record.epsilon is not None else {k: v for k, v in plain.items() if k != "epsilon"}


def _flat(record: StepRecord) -> dict[str, float]:
    staleness = record.staleness
    return {
        "version": record.version,
        "virtual_seconds": record.virtual_seconds,
        **record.metrics,
        "bytes_up": record.bytes_up,
        "bytes_down": record.bytes_down,
        "updates": len(record.clients),
        "mean_staleness": sum(staleness) / len(staleness) if staleness else 0.0,
        "max_staleness": max(staleness, default=0),
        "clipped": record.clipped,
        **({} if record.epsilon is None else {"epsilon": record.epsilon}),
    }
