"""Client sampling: a small rule of its own, so that any pacing can draw, or replay, its choices."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from operator import index
from typing import Protocol, runtime_checkable

from fedpace.errors import ConfigError, require
from fedpace.pace.available import Available, Draw
from fedpace.pace.bounds import require_attainable


@runtime_checkable
class Selection(Protocol):
    """Chooses clients. `asked` counts the choices made before this one: it lives in the pacing state."""

    def choose(self, k: int, asked: int, available: Available, busy: Set[int], draw: Draw) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class Uniform:
    """`k` distinct clients, uniformly, none of them busy (scheme C)."""

    def choose(self, k: int, asked: int, available: Available, busy: Set[int], draw: Draw) -> list[int]:
        return available.draw(k, draw(), busy)


@dataclass(frozen=True, slots=True)
class WithReplacement:
    """`k` uniform draws; a client drawn twice counts twice."""

    def choose(self, k: int, asked: int, available: Available, busy: Set[int], draw: Draw) -> list[int]:
        return available.draw_repeatedly(k, draw())


@dataclass(frozen=True, slots=True)
class ByShare:
    """`k` draws with probability p_i = n_i / sum n_j (scheme A); goes with uniform weights."""

    def choose(self, k: int, asked: int, available: Available, busy: Set[int], draw: Draw) -> list[int]:
        return available.draw_repeatedly(k, draw(), by_share=True)


@dataclass(frozen=True, slots=True)
class Poisson:
    """Each of all registered clients independently, with probability k / N: cohorts of random size, perhaps empty.

    A client that is absent at its turn is left out: nobody takes its place.
    """

    def choose(self, k: int, asked: int, available: Available, busy: Set[int], draw: Draw) -> list[int]:
        rng, everyone = draw(), Available(available.clients)
        chosen = everyone.draw(int(rng.binomial(everyone.clients, min(1.0, k / everyone.clients))), rng)
        return [client for client in chosen if client not in available.absent and client not in busy]


@dataclass(frozen=True, slots=True)
class Registered:
    """`k` distinct ones of all registered clients, uniformly; those absent at their turn are left out.

    Amplification by sampling counts on it: a draw from the clients that happen to be there would name them more often.
    """

    def choose(self, k: int, asked: int, available: Available, busy: Set[int], draw: Draw) -> list[int]:
        chosen = Available(available.clients).draw(k, draw())
        return [client for client in chosen if client not in available.absent and client not in busy]


@dataclass(frozen=True, slots=True)
class Scripted:
    """Replays given 0-based choices, one group per choice the server makes; repeats count twice.

    A client that is absent at its turn is left out.
    """

    groups: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        try:
            groups = tuple(tuple(map(index, group)) for group in self.groups)
        except TypeError:
            groups = ((),)
        require(all(groups), "Scripted.groups", self.groups, "non-empty groups of clients")
        object.__setattr__(self, "groups", groups)

    def choose(self, k: int, asked: int, available: Available, busy: Set[int], draw: Draw) -> list[int]:
        if asked >= len(self.groups):
            raise ConfigError(
                f"Scripted.groups must have a group for every choice; got {len(self.groups)} groups "
                f"and a choice number {asked + 1}"
            )
        for client in self.groups[asked]:
            require(
                0 <= client < available.clients, "Scripted client", client, f"in 0..{available.clients - 1}"
            )
            require(client not in busy, "Scripted client", client, "one that is not active already")
        return [client for client in self.groups[asked] if client not in available.absent]


def require_enough(select: Selection, k: int | None, clients: int) -> None:
    """Refuse to choose more distinct clients than there are, and to draw clients without end."""
    if k is not None and isinstance(select, Uniform | Poisson | Registered):
        require(k <= clients, "clients_per_round", k, f"<= the number of clients ({clients})")
    elif k is not None:
        require_attainable(k, "clients_per_round", clients)


NAMES: dict[str, Selection] = {
    "uniform": Uniform(),
    "replacement": WithReplacement(),
    "share": ByShare(),
    "poisson": Poisson(),
}


def selection(select: str | Selection | Sequence[Sequence[int]]) -> Selection:
    """A selection rule from its name, a script, or itself."""
    if isinstance(select, list | tuple):
        return Scripted(select)
    if isinstance(select, Selection):
        return select
    named = isinstance(select, str) and select in NAMES
    require(named, "select", select, "one of " + ", ".join(NAMES) + ", or Scripted(...)")
    return NAMES[str(select)]
