"""Fleet statuses in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fedpace.record.fleet.status import ALARMS, STATES, ClientStatus, FleetStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[dict[str, str], float | None]  # further labels, and the value; None: unknown, left out


@dataclass(frozen=True, slots=True)
class _Metric:
    name: str
    kind: str  # gauge | counter
    help: str
    samples: Callable[[FleetStatus], Iterable[Sample]]


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


def _one(value: Callable[[FleetStatus], float | None]) -> Callable[[FleetStatus], Iterable[Sample]]:
    return lambda status: [({}, value(status))]


def _each(value: Callable[[ClientStatus], float | None]) -> Callable[[FleetStatus], Iterable[Sample]]:
    return lambda status: [({"client": str(each.client)}, value(each)) for each in status.clients]


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


_METRICS = (
    _Metric(
        "fedpace_status_time_seconds", "gauge", "When the server said this.", _one(lambda status: status.time)
    ),
    _Metric("fedpace_step", "gauge", "Server steps taken.", _one(lambda status: status.step)),
    _Metric("fedpace_steps_planned", "gauge", "Server steps of the run.", _one(lambda status: status.steps)),
    _Metric(
        "fedpace_step_rate",
        "gauge",
        "Server steps per second over the last minute.",
        _one(lambda status: status.step_rate),
    ),
    _Metric("fedpace_clients", "gauge", "Clients by state.", _in_states),
    _Metric("fedpace_bytes_total", "counter", "Bytes of updates (up) and models (down).", _directions),
    _Metric(
        "fedpace_refused_total", "counter", "Connections, messages and updates that were refused.", _reasons
    ),
    _Metric(
        "fedpace_client_version",
        "gauge",
        "Version of the model that a client was sent last.",
        _each(lambda client: client.version),
    ),
    _Metric(
        "fedpace_client_round_trip_seconds",
        "gauge",
        "From a model's sending to its update.",
        _each(lambda client: client.round_trip),
    ),
    _Metric("fedpace_client_bytes_total", "counter", "Bytes of one client.", _client_bytes),
    _Metric(
        "fedpace_client_updates_total",
        "counter",
        "Updates of a client that were taken.",
        _each(lambda client: client.updates),
    ),
    _Metric(
        "fedpace_client_refused_total",
        "counter",
        "Updates of a client that were refused.",
        _each(lambda client: client.refused),
    ),
    _Metric(
        "fedpace_client_last_seen_seconds",
        "gauge",
        "When a client was last heard of.",
        _each(lambda client: client.last_seen),
    ),
    _Metric("fedpace_alarms", "gauge", "Alarms that are raised now, by kind.", _alarms),
)
