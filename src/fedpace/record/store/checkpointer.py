"""Checkpoints of a run in a folder: killed at any moment, it can be resumed bit-identically."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from fedpace.disk.locks import locked
from fedpace.errors import CheckpointError, ConfigError, StorageError, require_count, require_number
from fedpace.logs import LOG
from fedpace.record.run.history import History
from fedpace.record.store import checkpoint, snapshot
from fedpace.record.store.history_file import HistoryFile, Position
from fedpace.record.store.tree import Tree
from fedpace.sim.simulation import Simulation
from fedpace.untrusted import Number, Whole, brief, fits

PATIENCE = 50  # by time, writing takes at most one part in this many

JOURNAL = tuple(each.name for each in fields(Position))
HEAD = {
    "version": Whole,
    "experiment": {str: str},
    "journal": dict.fromkeys(JOURNAL, Whole),
    "real_seconds": Number,
}


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Where a run is checkpointed, and how often: server steps (100), or seconds of real time ("30s").

    A run that finds its own checkpoint in the folder resumes from it; with `previous`, from the one before.
    """

    folder: str | Path
    every: int | str = "30s"
    previous: bool = False
    at_end: bool = True  # also after the last step: the same call then returns the result at once

    def __post_init__(self) -> None:
        if self.steps is not None:
            require_count(self.steps, "checkpoint every")
        else:
            require_number(self.seconds, "checkpoint every", above=0, allowed="> 0 seconds")

    @property
    def steps(self) -> int | None:
        if isinstance(self.every, str):
            return int(self.every) if re.fullmatch(r"\d{1,20}", self.every) else None
        return self.every

    @property
    def seconds(self) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*s", str(self.every).strip())
        if match is None:
            raise ConfigError(
                f"checkpoint every must be steps (100) or real seconds (30s); got {brief(self.every)}"
            )
        return float(match[1])


class Checkpointer:
    """Writes checkpoints of one run when they are due. `about` is what makes it this experiment and no other."""

    def __init__(self, plan: Checkpoints, about: Mapping[str, str], clock: Callable[[], float]) -> None:
        self.plan, self.about, self._clock = plan, dict(about), clock
        self.folder = Path(plan.folder)
        self._steps, self._seconds = plan.steps, 0.0 if plan.steps else plan.seconds
        self._journal = HistoryFile(self.folder)
        self._spent = 0.0  # real seconds before this process
        self._began = self._saved = clock()
        self._took = 0.0  # seconds of the last write
        self._kept = -1  # the version in the last checkpoint

    @contextmanager
    def opened(self) -> Iterator[Checkpointer]:
        """Nobody else works in the folder meanwhile."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"checkpoint must be a folder that can be made ({error.strerror}); got {str(self.folder)!r}"
            ) from None
        with locked(self.folder):
            yield self

    @property
    def real_seconds(self) -> float:
        """Spent on the run so far, by all processes that worked on it."""
        return self._spent + self._clock() - self._began

    def next_look(self, version: int) -> int:
        """The step after which to ask whether a checkpoint is due."""
        steps = self._steps or 1
        return (version // steps + 1) * steps

    def save_if_due(self, simulation: Simulation, history: History) -> None:
        waited = self._clock() - self._saved
        if self._steps or waited >= max(self._seconds, PATIENCE * self._took):
            self.save(simulation, history)

    def save(self, simulation: Simulation, history: History) -> None:
        """Write everything now; StorageError if the disk does not take it."""
        began = self._clock()
        try:
            at = self._journal.append(history)
            head = {
                "version": simulation.server.version,
                "experiment": self.about,
                "journal": asdict(at),
                "real_seconds": self.real_seconds,
            }
            checkpoint.write(self.folder, checkpoint.encode(snapshot.take(simulation), head))
        except OSError as error:
            raise StorageError(
                f"the checkpoint after step {simulation.server.version} could not be written "
                f"({error.strerror}): {self.folder}; the one before it is good"
            ) from None
        LOG.debug("checkpoint after step %d in %s", simulation.server.version, self.folder)
        self._saved = self._clock()
        self._took = self._saved - began
        self._kept = simulation.server.version

    def save_the_end(self, simulation: Simulation, history: History, *, stopped: bool = False) -> None:
        """After the last step, or where the run was stopped on purpose: it can be resumed from there."""
        if (self.plan.at_end or stopped) and self._kept != simulation.server.version:
            self.save(simulation, history)

    def resume(self, simulation: Simulation, history: History) -> bool:
        """Put the last checkpoint back; False if there is none yet. CheckpointError if it cannot be used."""
        if not checkpoint.exists(self.folder):
            return False
        path, other = self.folder / checkpoint.CURRENT, self.folder / checkpoint.PREVIOUS
        if self.plan.previous:
            path, other = other, path
        try:
            head, tree = self._read(path)
            at = Position(**{name: head["journal"][name] for name in JOURNAL})
            self._journal.read(at, history, simulation.server.model)
            snapshot.put(tree, simulation)
        except CheckpointError as error:
            raise CheckpointError(f"{path} cannot be resumed: {error}{self._offer(other)}") from None
        self._spent, self._kept = head["real_seconds"], head["version"]
        if self.plan.previous:
            checkpoint.step_back(self.folder)
        return True

    def _read(self, path: Path) -> tuple[checkpoint.Head, Tree]:
        head, tree = checkpoint.read(path)
        if lacking := [name for name, shape in HEAD.items() if not fits(head, {name: shape})]:
            raise CheckpointError(f"it is damaged: its head lacks {', '.join(lacking)}")
        kept: dict[str, str] = head["experiment"]
        for name in (*self.about, *kept):
            there, here = kept.get(name, "not given"), self.about.get(name, "not given")
            if there != here:
                raise CheckpointError(
                    f"it belongs to another experiment, whose {name} is {there}; this one has {here}"
                )
        return head, tree

    def _offer(self, other: Path) -> str:
        try:
            head, _ = self._read(other)
        except CheckpointError:
            return "; there is no other one"
        which = "current" if self.plan.previous else "previous"
        return f"; the {which} one, of step {head['version']}, is good"


def clear(folder: Path) -> None:
    """Forget the checkpoints of a run that is over."""
    checkpoint.remove(folder)
    HistoryFile(folder).remove()
