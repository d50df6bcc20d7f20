"""Every workload on the CPU and on another device, each engine that can train there."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import fedpace
from fedpace.bench.own import own_task
from fedpace.bench.workloads import WORKLOADS, Workload
from fedpace.compute.device import Device, device
from fedpace.tasks.named import LoadedTask, load
from fedpace.tasks.torch_task import TorchTask

MEASURED = ("W1", "W2", "W3", "W5", "W6", "W7", "W7r")


@dataclass(frozen=True, slots=True)
class DeviceResult:
    workload: str
    device: str
    engine: str
    seconds: float  # per round, the median
    ratio: float  # to the CPU in one process


def measure(name: str, precision: str, repeats: int) -> list[DeviceResult]:
    """In turns, so that what else the machine does hits all alike."""
    chosen = device(name, precision)
    return [result for work in MEASURED for result in _measured(WORKLOADS[work], chosen, repeats)]


def _measured(workload: Workload, chosen: Device, repeats: int) -> Iterator[DeviceResult]:
    ways = [(task, engine) for task in _tasks(workload, chosen) for engine in _engines(task)]
    turns: list[list[float]] = [[] for _ in ways]
    for turn in range(repeats + 1):
        for seconds, (task, engine) in zip(turns, ways, strict=True):
            took = _seconds(workload, task, engine)
            seconds += [took] if turn else []  # the first compiles and brings the data
    base = statistics.median(turns[0])
    for seconds, (task, engine) in zip(turns, ways, strict=True):
        median = statistics.median(seconds)
        where = f"{task.device.name} {task.device.precision}"
        yield DeviceResult(workload.name, where, engine, median, median / base)


def _tasks(workload: Workload, chosen: Device) -> list[TorchTask]:
    """On the CPU first, then on the device if that is another."""
    here = workload.make_task()
    return [here] if chosen.is_plain else [here, _moved(workload, here, chosen)]


def _moved(workload: Workload, here: TorchTask, chosen: Device) -> TorchTask:
    if not isinstance(here, LoadedTask):
        return own_task(workload.model, workload.clients, chosen)
    if here.data.name != "noise":
        return load(workload.data, workload.clients, "iid", workload.model, 0, chosen)
    parts = (here.data, here.defaults, here.clients, here.partition, here.model, here.seed)
    return LoadedTask(*parts, chosen)


def _engines(task: TorchTask) -> list[str]:
    return ["inline", "vectorised"] if not task.device.is_host and task.lanes > 1 else ["inline"]


def _seconds(workload: Workload, task: TorchTask, engine: str) -> float:
    began = time.perf_counter()
    fedpace.simulate(
        workload.make_algorithm(),
        task,
        rounds=workload.rounds,
        compute=engine,
        evaluate_every=None,
        traces=False,
    )
    return (time.perf_counter() - began) / workload.rounds
