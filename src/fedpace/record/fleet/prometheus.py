"""Fleet statuses in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from fedpace.record.fleet.status import ALARMS, STATES, FleetStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[dict[str, str], float | None]  # further labels, and the value; None: unknown, left out
Samples = Callable[[FleetStatus], Iterable[Sample]]


@dataclass(frozen=True, slots=True)
class _Metric:
    kind: str  # gauge | counter
    name: str
    help: str
    samples: Samples


def rendered(statuses: Sequence[FleetStatus]) -> str:
    """One text for all of them, each with its run as a label."""
    return "".join(f"{line}\n" for metric in _METRICS for line in _lines(metric, statuses))


def _lines(metric: _Metric, statuses: Sequence[FleetStatus]) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for status in statuses:
        for labels, value in metric.samples(status):
            if value is not None:
                yield f"{metric.name}{{{_labels({'run': status.run, **labels})}}} {value!r}"


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _one(field: str) -> Samples:
    return lambda status: [({}, getattr(status, field))]


def _each(field: str) -> Samples:
    return lambda status: [({"client": str(each.client)}, getattr(each, field)) for each in status.clients]


def _in_states(status: FleetStatus) -> Iterable[Sample]:
    states = [each.state for each in status.clients]
    return [({"state": state}, states.count(state)) for state in STATES]


def _directions(status: FleetStatus) -> Iterable[Sample]:
    return [({"direction": "up"}, status.bytes_up), ({"direction": "down"}, status.bytes_down)]


def _client_bytes(status: FleetStatus) -> Iterable[Sample]:
    for each in status.clients:
        yield {"client": str(each.client), "direction": "up"}, each.bytes_up
        yield {"client": str(each.client), "direction": "down"}, each.bytes_down


def _reasons(status: FleetStatus) -> Iterable[Sample]:
    return [({"reason": reason}, count) for reason, count in status.refused.items()]


def _alarms(status: FleetStatus) -> Iterable[Sample]:
    kinds = [alarm.kind for alarm in status.alarms]
    return [({"kind": kind}, kinds.count(kind)) for kind in ALARMS]


_gauge, _counter = partial(_Metric, "gauge"), partial(_Metric, "counter")

_METRICS = (
    _gauge("fedpace_status_time_seconds", "When the server said this.", _one("time")),
    _gauge("fedpace_step", "Server steps taken.", _one("step")),
    _gauge("fedpace_steps_planned", "Server steps of the run.", _one("steps")),
    _gauge("fedpace_step_rate", "Server steps per second over the last minute.", _one("step_rate")),
    _gauge("fedpace_clients", "Clients by state.", _in_states),
    _counter("fedpace_bytes_total", "Bytes of updates (up) and models (down).", _directions),
    _counter("fedpace_refused_total", "Connections, messages and updates that were refused.", _reasons),
    _gauge("fedpace_client_version", "Version of the model that a client was sent last.", _each("version")),
    _gauge("fedpace_client_round_trip_seconds", "From a model's sending to its update.", _each("round_trip")),
    _counter("fedpace_client_bytes_total", "Bytes of one client.", _client_bytes),
    _counter("fedpace_client_updates_total", "Updates of a client that were taken.", _each("updates")),
    _counter("fedpace_client_refused_total", "Updates of a client that were refused.", _each("refused")),
    _gauge("fedpace_client_last_seen_seconds", "When a client was last heard of.", _each("last_seen")),
    _gauge("fedpace_alarms", "Alarms that are raised now, by kind.", _alarms),
)
