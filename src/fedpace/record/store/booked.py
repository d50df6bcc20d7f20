"""What the run store is told of a run before it begins. (Apart from the store, which takes long to import.)"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedpace.algorithm import Algorithm
    from fedpace.sim.observer import Observer

EVERY = "60s"  # real time between two checkpoints of a saved run


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """What the store is told of a run before it begins."""

    name: str | None  # None: a free one
    algorithm: Algorithm
    task: str
    seed: int
    rounds: int
    experiment: Mapping[str, str]  # what decides the outcome
    arguments: Sequence[str] = ()  # of `fedpace run`, which makes it again
    about: Mapping[str, Any] = field(default_factory=dict)  # papers, study, partition
    settings: str = ""  # the parameters it was given, for a list of runs
    stopped_is_over: bool = False  # a run that was stopped on purpose is not resumed
    new: bool = False  # never one that is there
    resumed: bool = False  # by its name: whether it is the same experiment is for its checkpoint to say


@dataclass(frozen=True, slots=True)
class StoreAs:
    """A name in the run store, and what is noted beside the run.

    Without a name the same experiment is looked for under any, and a new one gets a free one.
    """

    name: str | None
    about: Mapping[str, Any] = field(default_factory=dict)
    stopped_is_over: bool = False
    arguments: Sequence[str] = ()  # of `fedpace run`, which makes it again
    new: bool = False  # never one that is there
    resumed: bool = False  # by its name: whether it is the same experiment is for its checkpoint to say
    every: int | str = EVERY  # between checkpoints: steps, or real seconds
    previous: bool = False  # resume from the checkpoint before the last
    settings: str = ""  # the parameters it was given, for a list of runs
    opened: Callable[[str, Mapping[str, str]], AbstractContextManager[Sequence[Observer]]] | None = None
    # observers for a run of this name and configuration
