"""measured.json: the devices of a deployed run, and its history to compare a prediction with."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from fedpace.deploy.prediction.fitting import DeviceTimes, fit, warm, warm_up_s
from fedpace.deploy.prediction.sessions import Observed, ObservedClient
from fedpace.errors import ConfigError, require
from fedpace.pace.protocol import Continuous, Interruptible
from fedpace.random import stream
from fedpace.record import rows
from fedpace.sim import Population
from fedpace.sim.availability import Window
from fedpace.sim.observer import StepRecord
from fedpace.sim.resampled import Resampled
from fedpace.untrusted import Number, Whole, brief, fits, read_regular

SCHEMA = 2
MOST_BYTES = 256 << 20
REPEATS = 100  # of an availability that was observed, in a prediction that lasts longer
LARGEST_S = 1e12

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MeasuredDevice:
    """One client's machine and link, as its sessions show them."""

    client: int
    sessions: int  # observed
    steps: float  # mean local steps of a session
    train_s: float  # mean seconds of local training
    step_s: float
    latency_s: float  # one way
    bytes_per_s: float | None  # None: transfers were too small to tell
    slowdown: tuple[float, ...]  # by session: its steps took that times step_s
    extra_s: tuple[float, ...]  # by session: what neither steps nor link explain
    available: tuple[tuple[float, float | None], ...]  # from, to; seconds since the first model

    @property
    def s_per_byte(self) -> float:
        return 0.0 if self.bytes_per_s is None else 1.0 / self.bytes_per_s


@dataclass(frozen=True, slots=True)
class MeasuredPopulation:
    """The devices of one deployed run. `seconds`: from its first model to its end; its history begins there, too."""

    run: str
    plan: str
    seconds: float
    warm_up_s: float  # by which first sessions were longer
    drop: float  # share of sessions that were given up
    devices: tuple[MeasuredDevice, ...]
    history: tuple[StepRecord, ...]

    def population(self, clients: int, order: int = 0) -> Population:
        """For so many clients; those beyond the measured ones have their devices, in turn.

        Each order draws other sessions, of devices that a run of this one's length might have shown.
        """
        chosen = [self.devices[number % len(self.devices)] for number in range(clients)]
        drawn = [_redrawn(device, number, order) for number, device in enumerate(chosen)]
        return Population(
            solve_s=0.0,
            step_s=tuple(device.step_s for device in chosen),
            up_s=tuple(device.latency_s for device in chosen),
            down_s=tuple(device.latency_s for device in chosen),
            up_s_per_byte=tuple(device.s_per_byte for device in chosen),
            down_s_per_byte=tuple(device.s_per_byte for device in chosen),
            noise=Resampled(tuple(own for own, _ in drawn), tuple(own for _, own in drawn), order),
            drop=self.drop,
            windows=self._windows(chosen),
            delayed_orders=True,
        )

    def _windows(self, chosen: Sequence[MeasuredDevice]) -> tuple[Window, ...] | None:
        """None where everybody was there all the time; else as observed, over and over."""
        if all(device.available == ((0.0, None),) for device in chosen):
            return None
        return tuple(
            (number, start + k * self.seconds, self._end(end) + k * self.seconds)
            for number, device in enumerate(chosen)
            for k in range(REPEATS)
            for start, end in device.available
            if start < self._end(end)
        )

    def _end(self, end: float | None) -> float:
        return self.seconds if end is None else min(end, self.seconds)

    def share_available(self, device: MeasuredDevice) -> float:
        """Of the measured time."""
        there = sum(max(0.0, self._end(end) - start) for start, end in device.available)
        return there / self.seconds if self.seconds else 1.0

    def to_json(self) -> str:
        plain = {**asdict(replace(self, history=())), "schema": SCHEMA}
        return json.dumps({**plain, "history": [_plain(step) for step in self.history]}, allow_nan=False)


def measured(observed: Observed, run: str) -> MeasuredPopulation:
    """The population of a journal; ConfigError if too little happened in it."""
    terms, started_s = observed.begun.terms, observed.started_s
    known = {number: each for number, each in sorted(observed.clients.items()) if each.sessions}
    if started_s is None or not known:
        raise ConfigError(
            "RUN must have updates in its journal; got one in which no client finished a session"
        )
    behaviour = terms.behaviour
    waits = isinstance(behaviour, Interruptible) or (isinstance(behaviour, Continuous) and behaviour.polled)
    cold_s = warm_up_s((each.sessions for each in known.values()), waits=waits)
    times = {
        number: fit(warm(each.sessions, cold_s), waits=waits, unstarted=each.unstarted if waits else ())
        for number, each in known.items()
    }
    history = tuple(
        replace(step, virtual_seconds=max(0.0, step.virtual_seconds - started_s))
        for step in observed.coordinator.history()
    )
    lost = observed.coordinator.state.deliveries.dropped
    return MeasuredPopulation(
        run=run,
        plan=terms.plan.text,
        seconds=observed.coordinator.state.now - started_s,
        warm_up_s=cold_s,
        drop=lost / (lost + sum(len(each.sessions) for each in known.values())),
        devices=tuple(_device(number, known[number], times[number], started_s) for number in known),
        history=history,
    )


def _redrawn(device: MeasuredDevice, number: int, order: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """As many of its sessions, with replacement: few of them tell little of how fast a client is."""
    count = len(device.slowdown)
    at = stream(order, "population", number).integers(count, size=count)
    return tuple(device.slowdown[k] for k in at), tuple(device.extra_s[k] for k in at)


def _device(number: int, client: ObservedClient, times: DeviceTimes, started_s: float) -> MeasuredDevice:
    windows = [
        (max(0.0, start - started_s), None if end is None else end - started_s)
        for start, end in client.present
        if end is None or end > started_s
    ]
    return MeasuredDevice(
        client=number,
        sessions=len(client.sessions),
        steps=times.steps,
        train_s=times.train_s,
        step_s=times.step_s,
        latency_s=times.latency_s,
        bytes_per_s=None if times.s_per_byte == 0 else 1.0 / times.s_per_byte,
        slowdown=times.slowdown,
        extra_s=times.extra_s,
        available=tuple(windows) or ((0.0, None),),
    )


# ------------------------------------------------------------ the file

_SHAPE: dict[str, object] = {
    "schema": Whole,
    "run": str,
    "plan": str,
    "seconds": Number,
    "warm_up_s": Number,
    "drop": Number,
    "devices": [dict],
    "history": [dict],
}
_DEVICE: dict[str, object] = {
    "client": Whole,
    "sessions": Whole,
    **dict.fromkeys(("steps", "train_s", "step_s", "latency_s"), Number),
    "bytes_per_s": (Number, None),
    "slowdown": [Number],
    "extra_s": [Number],
    "available": [[(Number, None)]],
}


def read(path: str | Path) -> MeasuredPopulation:
    """The file of `fedpace deploy measure`; ConfigError names what is wrong in it."""
    try:
        found = json.loads(read_regular(path, MOST_BYTES))
    except OSError as error:
        raise ConfigError(
            f"--population must be a readable file; got {str(path)!r} ({error.strerror})"
        ) from None
    except (ValueError, RecursionError):
        raise ConfigError(
            f"--population must be JSON of `fedpace deploy measure`; got {str(path)!r}"
        ) from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} must be an object; got {brief(found)}")
    _require_shape(found, _SHAPE, str(path))
    again = f"{SCHEMA}, of a file that this version's `fedpace deploy measure` wrote"
    require(found["schema"] == SCHEMA, f"{path}: schema", found["schema"], again)
    require(0 <= found["drop"] < 1, f"{path}: drop", found["drop"], "in [0, 1)")
    require(0 < found["seconds"] <= LARGEST_S, f"{path}: seconds", found["seconds"], f"in (0, {LARGEST_S:g}]")
    require(0 <= found["warm_up_s"] <= LARGEST_S, f"{path}: warm_up_s", found["warm_up_s"], ">= 0 seconds")
    require(bool(found["devices"]), f"{path}: devices", [], "at least one")
    devices = tuple(_read_device(each, f"{path}: devices[{at}]") for at, each in enumerate(found["devices"]))
    history = tuple(_read_step(each, f"{path}: history[{at}]") for at, each in enumerate(found["history"]))
    return _made(MeasuredPopulation, {**found, "devices": devices, "history": history})


def _require_shape(found: Mapping[str, Any], shape: Mapping[str, object], where: str) -> None:
    for name, of in shape.items():
        require(name in found and fits(found[name], of), f"{where}: {name}", found.get(name), "of its kind")


def _read_device(found: Mapping[str, Any], where: str) -> MeasuredDevice:
    _require_shape(found, _DEVICE, where)
    for name in ("client", "sessions", "steps", "train_s", "step_s", "latency_s"):
        require(0 <= found[name] <= LARGEST_S, f"{where}.{name}", found[name], f"in [0, {LARGEST_S:g}]")
    require(found["step_s"] > 0, f"{where}.step_s", found["step_s"], "> 0")
    slower, extra_s = found["slowdown"], found["extra_s"]
    sound = bool(slower) and all(0 <= each <= LARGEST_S for each in slower)
    require(sound, f"{where}.slowdown", brief(slower), f"of one session or more, in [0, {LARGEST_S:g}]")
    sound = len(extra_s) == len(slower) and all(abs(each) <= LARGEST_S for each in extra_s)
    require(sound, f"{where}.extra_s", brief(extra_s), "seconds of the same sessions")
    rate = found["bytes_per_s"]
    require(rate is None or 1e-6 <= rate <= LARGEST_S, f"{where}.bytes_per_s", rate, "a rate, or null")
    windows = _read_windows(found["available"], where)
    sessions = {"slowdown": tuple(slower), "extra_s": tuple(extra_s)}
    return _made(MeasuredDevice, {**found, **sessions, "available": windows})


def _read_windows(found: Sequence[Sequence[Any]], where: str) -> tuple[tuple[float, float | None], ...]:
    before = 0.0
    for window in found:
        sound = len(window) == 2 and window[0] is not None
        end = math.inf if not sound or window[1] is None else window[1]
        ordered = sound and before <= window[0] < end
        require(ordered, f"{where}.available", window, "[from, to], in order; the last `to` may be null")
        before = end
    return tuple((start, end) for start, end in found)


def _read_step(found: Mapping[str, Any], where: str) -> StepRecord:
    _require_shape(found, rows.STEP, where)
    return rows.step(found)


def _made(kind: Callable[..., T], found: Mapping[str, Any]) -> T:
    known: Any = kind
    return kind(**{each.name: found[each.name] for each in fields(known)})


def _plain(step: StepRecord) -> dict[str, Any]:
    return {name: getattr(step, name) for name in rows.STEP} | {"metrics": dict(step.metrics)}
