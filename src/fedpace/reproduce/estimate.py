"""What a reproduction will cost, measured rather than guessed: a few steps of each kind of cell."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import NamedTuple

from fedpace.algorithm import Algorithm
from fedpace.errors import ConfigError
from fedpace.reproduce.cell import Cell, NamedTask
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.run import Job, simulated
from fedpace.sim import Population

RULES = ("local", "correction", "personal", "up", "down", "aggregate", "server_opt")
SHORT = 2  # server steps of a probe
ENOUGH_S = 30.0  # of a core: beside such a probe what is done once, some seconds, hardly counts


class TimeEstimate(NamedTuple):
    """At most so much work: cells that reach their target end earlier.

    `unknown` runs cannot be timed here, for the reasons in `why`: their data set is not downloaded.
    """

    runs: int
    steps: int
    core_seconds: float
    unknown: int = 0
    why: tuple[str, ...] = ()

    def __str__(self) -> str:
        time = duration(self.core_seconds)
        known = f"{self.runs} runs, at most {self.steps:,} server steps, about {time} of one core"
        return f"{known}; {self.unknown} more not timed: {'; '.join(self.why)}" if self.unknown else known


def total(estimates: Sequence[TimeEstimate]) -> TimeEstimate:
    """Of several experiments."""
    return TimeEstimate(
        sum(one.runs for one in estimates),
        sum(one.steps for one in estimates),
        sum(one.core_seconds for one in estimates),
        sum(one.unknown for one in estimates),
        tuple(dict.fromkeys(reason for one in estimates for reason in one.why)),
    )


def estimate(jobs: Sequence[Job]) -> TimeEstimate:
    """Times a few rounds of each kind; cells that differ in numbers of their rules only are taken to be equally fast.

    Cells that differ in name alone share their runs, which are counted once.
    """
    known: dict[tuple[object, ...], Throughput | str] = {}
    found = []
    for cell, seed in {(cell.setting, seed): (cell, seed) for cell, seed in jobs}.values():
        kind = _kind(cell)
        if kind not in known:
            known[kind] = _pace_or_reason(cell, seed)
        found.append(_of_run(cell, known[kind]))
    return total(found)


def _of_run(cell: Cell, pace: Throughput | str) -> TimeEstimate:
    if isinstance(pace, str):
        return TimeEstimate(0, 0, 0.0, 1, (pace,))
    most = _steps(cell, pace)
    return TimeEstimate(1, most, most * pace.core_s)


@dataclass(frozen=True, slots=True)
class Throughput:
    """What a server step takes, of a core and on the virtual clock."""

    core_s: float
    virtual_s: float


def _kind(cell: Cell) -> tuple[object, ...]:
    """Task, devices, pacing, local work and the classes of all rules.

    Data sets drawn by different seeds are of one kind, too: there are as many of them as seeds.
    """
    local = cell.algorithm.local
    work = (local.steps, local.epochs, local.batch_size, local.momentum > 0)
    task = replace(cell.task, data_seed=None) if isinstance(cell.task, NamedTask) else cell.task
    return (
        task,
        _devices(cell.population),
        cell.algorithm.name,
        repr(cell.algorithm.pace),
        work,
        _rules(cell.algorithm),
        cell.evaluate_every,
    )


def _rules(algorithm: Algorithm) -> tuple[object, ...]:
    return tuple(_classes(getattr(algorithm, stage)) for stage in RULES)


def _devices(population: Population | None) -> tuple[object, ...]:
    """How many of them attack, and how, hardly changes the pace."""
    if population is None:
        return ()
    return repr(replace(population, hostile=None)), _classes(population.hostile)


def _classes(rule: object) -> tuple[object, ...]:
    """The class of a rule and those of the rules inside it: codecs, memories, wrapped rules; no numbers."""
    if is_dataclass(rule):
        inside = [getattr(rule, each.name) for each in fields(rule)]
    elif isinstance(rule, (tuple, list)):
        inside = list(rule)
    else:
        return ()
    return type(rule).__name__, *(found for each in inside if (found := _classes(each)))


def _steps(cell: Cell, pace: Throughput) -> int:
    """Server steps until the cell ends at the latest."""
    if cell.stop_s is None or pace.virtual_s == 0:
        return cell.rounds
    return min(cell.rounds, int(cell.stop_s / pace.virtual_s) + 1)


def _pace_or_reason(cell: Cell, seed: int) -> Throughput | str:
    """The pace of a kind of cell, or why it cannot be run here: other kinds are timed all the same."""
    try:
        return _pace(cell, seed)
    except ConfigError as reason:
        return str(reason)


def _pace(cell: Cell, seed: int) -> Throughput:
    """By the difference of two short runs: what is done once, such as compiling loops, does not count.

    One run is enough where it takes long.
    """
    cell.task(seed)  # the data are kept for both
    short, short_s = _timed(cell, seed, SHORT)
    if short_s >= ENOUGH_S:
        return Throughput(short_s / SHORT, short.seconds / SHORT)
    long, long_s = _timed(cell, seed, 3 * SHORT)
    core_s = (long_s - short_s) / (2 * SHORT) if long_s > short_s else long_s / (3 * SHORT)
    return Throughput(core_s, (long.seconds - short.seconds) / (2 * SHORT))


def _timed(cell: Cell, seed: int, rounds: int) -> tuple[Outcome, float]:
    """In processor time: other work on the machine does not change it."""
    began = time.process_time()
    return simulated(cell, seed, rounds=rounds), time.process_time() - began


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
