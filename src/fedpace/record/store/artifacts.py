"""The big parts of a run as safetensors files in its folder: model, client timeline, measurements of clients."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.client_spread import ClientSpread
from fedpace.disk import files
from fedpace.errors import StorageError
from fedpace.record.run import model_file
from fedpace.record.run.inference import known
from fedpace.record.run.metrics import rises
from fedpace.record.run.run import Run
from fedpace.record.run.timeline import KINDS
from fedpace.record.store.store import Entry, Store
from fedpace.record.store.tree import Array
from fedpace.sim.observer import Activity, Fate
from fedpace.untrusted import open_regular, read_regular
from fedpace.vector import Layout, Vector

MODEL = "model.safetensors"
TIMELINE = "timeline.safetensors"
CLIENTS = "clients.safetensors"
FATES = ("consumed", "overwritten", "dropped", "refused")
_TIMELINE = {
    "activity": ("client", "start", "end", "kind", "version", "session"),
    "fate": ("client", "session", "fate", "version"),
}
_DAMAGED = (OSError, KeyError, ValueError, TypeError, IndexError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, repr=False)
class Described:
    """An algorithm of the store: its name and its `repr`."""

    name: str
    text: str
    up: None = None
    down: None = None

    def __repr__(self) -> str:
        return self.text


def write(folder: Path, run: Run) -> None:
    """Put model, timeline and measurements of a run into its folder."""
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    order = json.dumps(run.layout.names)  # a safetensors file has an order of its own
    if run.activities:
        columns = {**_activities(run.activities), **_fates(run.fates)}
        files.write(folder / TIMELINE, save(columns), durable=False, through=False)
    if set(run.client_metrics) - {len(run.history)}:  # those of the last model are in the database
        files.write(folder / CLIENTS, save(*_measured(run)), durable=False, through=False)
    files.write(folder / MODEL, model_file.encode(run.arrays(), run.privacy, {"order": order}), through=False)


def load(store: Store, entry: Entry, algorithm: Algorithm | None = None) -> Run:
    """A run as the store knows it; `algorithm` is its value, where the caller can make it."""
    folder = store.folder(entry.name)
    value: Any = algorithm or Described(entry.algorithm, entry.experiment.get("algorithm", ""))
    with _plain_errors(folder):
        layout, model, others = _read_model(folder / MODEL)
        activities, fates = _read_timeline(folder / TIMELINE)
        measured = _read_clients(folder / CLIENTS)
    history = store.history(entry.id)
    facts = {name: fact for name, fact in entry.summary.items() if name != "initial_metrics"}
    return Run(
        algorithm=value,
        task=entry.task,
        seed=entry.seed,
        rounds=entry.rounds,
        history=history,
        model=model,
        layout=layout,
        counters=entry.counters,
        initial_metrics=entry.summary.get("initial_metrics", {}),
        other_tensors=known(others),
        client_metrics=dict(sorted({**_client_metrics(entry, len(history)), **measured}.items())),
        summary={**facts, "name": entry.name, "step_seconds": store.real_seconds(entry.id)},
        traffic=entry.traffic,
        activities=activities,
        fates=fates,
        stopped=entry.note if entry.status == "stopped" else None,
    )


def _client_metrics(entry: Entry, version: int) -> dict[int, ClientSpread]:
    """Of the last model, where that was measured."""
    known = entry.summary.get("client_metric")
    if not known:
        return {}
    spread = ClientSpread(known["metric"], np.array(known["values"]), rises(known["metric"]))
    return {version: spread}


def _measured(run: Run) -> tuple[dict[str, Array], dict[str, str]]:
    """One row per measurement of the clients, and what was measured."""
    spreads = list(run.client_metrics.values())
    values = np.stack([np.asarray(each.values, np.float64) for each in spreads])
    columns: dict[str, Array] = {"version": np.array(list(run.client_metrics), np.int64), "values": values}
    return columns, {"metric": spreads[0].name}


def _read_clients(path: Path) -> dict[int, ClientSpread]:
    if not path.exists():
        return {}
    from safetensors import safe_open

    open_regular(path).close()  # a pipe would be waited for
    with safe_open(path, framework="numpy") as file:
        metric = file.metadata()["metric"]
        column = file.get_tensor("version")
        _require_numbers("version", column)
        values = np.asarray(file.get_tensor("values"), np.float64).reshape(column.size, -1)
    return {
        version: ClientSpread(metric, row, rises(metric))
        for version, row in zip(column.tolist(), values, strict=True)
    }


@contextmanager
def _plain_errors(folder: Path) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        yield
    except _DAMAGED as error:
        raise StorageError(f"the files of a run in {folder} are damaged ({error})") from None
    except SafetensorError as error:
        raise StorageError(f"the files of a run in {folder} are damaged ({error})") from None


def _activities(rows: Sequence[Activity]) -> dict[str, Array]:
    return {
        "activity.client": np.array([a.client for a in rows], np.int64),
        "activity.start": np.array([a.start for a in rows], np.float64),
        "activity.end": np.array([a.end for a in rows], np.float64),
        "activity.kind": np.array([KINDS.index(a.kind) for a in rows], np.uint8),
        "activity.version": np.array([a.version for a in rows], np.int64),
        "activity.session": np.array([a.session for a in rows], np.int64),
    }


def _fates(rows: Sequence[Fate]) -> dict[str, Array]:
    return {
        "fate.client": np.array([f.client for f in rows], np.int64),
        "fate.session": np.array([f.session for f in rows], np.int64),
        "fate.fate": np.array([FATES.index(f.fate) for f in rows], np.uint8),
        "fate.version": np.array([-1 if f.version is None else f.version for f in rows], np.int64),
    }


def _read_model(path: Path) -> tuple[Layout, Vector, dict[str, Array]]:
    """Empty for a run that has not come to its end."""
    if not path.exists():
        return Layout((), ()), np.empty(0, np.float32), {}
    from safetensors import safe_open

    open_regular(path).close()  # a pipe would be waited for
    with safe_open(path, framework="numpy") as file:
        order = json.loads(file.metadata()["order"])
        tensors = {name: file.get_tensor(name) for name in order}
        others = {name: file.get_tensor(name) for name in file.keys() if name not in tensors}  # noqa: SIM118
    layout = Layout.of({name: tensor.shape for name, tensor in tensors.items()})
    return layout, np.concatenate([tensor.reshape(-1) for tensor in tensors.values()]), others


def _require_numbers(name: str, column: Array) -> None:
    """One per row, whole but for times, and none that is not finite."""
    whole = name not in ("activity.start", "activity.end")
    if column.ndim != 1 or column.dtype.kind not in ("iu" if whole else "f") or not np.isfinite(column).all():
        raise ValueError(f"{name} must be numbers; got {column.dtype} {column.shape}")


def timeline_columns(folder: Path) -> dict[str, Array] | None:
    """The client timeline of a run as arrays, which are checked; None if it has none."""
    if not (folder / TIMELINE).exists():
        return None
    with _plain_errors(folder):
        return _columns(folder / TIMELINE)


def _columns(path: Path) -> dict[str, Array]:
    """Of activities and of fates, each of equal length."""
    from safetensors.numpy import load

    found = load(read_regular(path))
    for name, column in found.items():
        _require_numbers(name, column)
    for kind, names in _TIMELINE.items():
        if len({found[f"{kind}.{name}"].size for name in names}) > 1:
            raise ValueError(f"columns of {kind} must be of equal length")
    return found


def _read_timeline(path: Path) -> tuple[list[Activity], list[Fate]]:
    if not path.exists():
        return [], []
    columns: dict[str, list[Any]] = {name: column.tolist() for name, column in _columns(path).items()}
    activities = zip(
        columns["activity.client"],
        columns["activity.start"],
        columns["activity.end"],
        (KINDS[kind] for kind in columns["activity.kind"]),
        columns["activity.version"],
        columns["activity.session"],
        strict=True,
    )
    fates = zip(
        columns["fate.client"],
        columns["fate.session"],
        (FATES[fate] for fate in columns["fate.fate"]),
        (None if version < 0 else version for version in columns["fate.version"]),
        strict=True,
    )
    return [Activity(*row) for row in activities], [Fate(*row) for row in fates]
