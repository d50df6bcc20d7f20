"""Settings of runs and what came of them: the points of a sweep, whether it has a name or was put together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fedpace.dashboard.answers import answer, store_of
from fedpace.errors import ConfigError
from fedpace.record.rows import Entry, Listed
from fedpace.record.run.metrics import main_metric, rises
from fedpace.record.store.store import Store

MOST_RUNS = 5000
_PAIR = re.compile(r"(?:^|, )(?=[A-Za-z_][A-Za-z0-9_.]*=)")  # between the settings of a row's label


def shown(request: Request) -> Response:
    """Points with their settings, the best first."""
    asked = request.query_params
    names = list(dict.fromkeys(asked.getlist("run")))
    if not names:
        raise ConfigError("a sweep must be a study or several runs; got none")
    return answer(points(store_of(request), names, asked.get("metric", "")))


def points(store: Store, names: Sequence[str], metric: str) -> dict[str, Any]:
    """One point for each combination of settings: a value per seed, and its mean where every seed was completed."""
    from fedpace.study.sweep import Point, best_first

    every = list(dict.fromkeys(each for name in names for each in store.names(name)))
    if len(every) > MOST_RUNS:
        raise ConfigError(f"runs of a sweep must be at most {MOST_RUNS:,}; got {len(every):,}")
    listed = {run.name: run for run in store.listing(every)}
    metrics = dict.fromkeys(name for run in listed.values() for name in run.metrics)
    ranked = metric if metric in metrics else main_metric({**dict.fromkeys(metrics, 0.0)} or {"loss": 0.0})
    found: dict[str, tuple[Point, list[str]]] = {}
    for name in every:
        own = settings(store[name])
        point, runs = found.setdefault(repr(sorted(own.items())), (Point(own), []))
        runs.append(name)
        _add(point, listed[name], store.state(listed[name]), ranked)
    runs_of = {id(point): runs for point, runs in found.values()}
    in_order = best_first([point for point, _ in found.values()], ranked)
    return {
        "metric": ranked,
        "metrics": list(metrics),
        "rises": rises(ranked),
        "names": _varying([point.settings for point in in_order]),
        "points": [
            {
                "settings": point.settings,
                "mean": point.mean,
                "spread": point.spread,
                "seeds": len(point.states),
                "state": next((state for state in point.states if state != "done"), "done"),
                "runs": runs_of[id(point)],
            }
            for point in in_order
        ],
    }


def _add(point: Any, run: Listed, state: str, metric: str) -> None:
    point.states.append(state)
    if metric in run.metrics:
        point.values.append(run.metrics[metric])


def settings(entry: Entry) -> dict[str, str]:
    """What was set with --set; for a run of a Python program, what its row is called."""
    words = entry.arguments
    told = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--set"]
    told += [word.removeprefix("--set=") for word in words if word.startswith("--set=")]
    if not words:
        told = [part for part in _PAIR.split(str(entry.about.get("study", {}).get("row", ""))) if "=" in part]
    pairs = dict(pair.partition("=")[::2] for pair in told)
    return {**({"algorithm": entry.algorithm} if entry.algorithm else {}), **pairs}


def _varying(every: Sequence[Any]) -> list[str]:
    names = dict.fromkeys(name for each in every for name in each)
    return [name for name in names if len({each.get(name) for each in every}) > 1]
