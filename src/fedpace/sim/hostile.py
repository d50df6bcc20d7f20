"""Clients that lie: what an attacker sends instead of its update, made where frames are made.

Local training stays a pure function of its request, so results do not depend on workers; an attack is one of
(honest update, what the hostile clients know, random stream).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import NormalDist

import numpy as np

from fedpace.compute.protocol import Engine, Request, Task
from fedpace.errors import ConfigError, require, require_number
from fedpace.random import stream
from fedpace.server import Update
from fedpace.vector import Vector

VERSIONS_KNOWN = 4  # hostile clients train together from one version at a time, or from few
Peers = Callable[[], Sequence[Vector]]  # the hostile clients' own honest updates from the same version


@dataclass(frozen=True, slots=True)
class Situation:
    """What an attack may use beside the honest update."""

    strength: float
    peers: Peers
    rng: np.random.Generator


def sign_flip(delta: Vector, s: Situation) -> Vector:
    """-strength * delta: gradient ascent."""
    return -s.strength * delta


def noise(delta: Vector, s: Situation) -> Vector:
    """Gaussian noise, strength times as long as the honest update."""
    spread = s.strength * float(np.linalg.norm(delta)) / math.sqrt(delta.size)
    return (spread * s.rng.standard_normal(delta.size)).astype(delta.dtype)


def scale(delta: Vector, s: Situation) -> Vector:
    """strength * delta: one client that wants to count as many."""
    return s.strength * delta


def free_rider(delta: Vector, s: Situation) -> Vector:
    """The model as it came: nothing was learned. Fraboni et al. 2021, arXiv:2006.11901; strength: noise beside it."""
    return (s.strength * s.rng.standard_normal(delta.size)).astype(delta.dtype)


def alie(delta: Vector, s: Situation) -> Vector:
    """mean - z std of the hostile clients' own updates. Baruch et al. 2019, arXiv:1902.06156, Algorithm 3.

    z is `strength`, or the largest with which enough honest updates lie farther out: Phi^-1((n - f - m) / (n - f)),
    m = floor(n/2 + 1) - f, for n clients of which f are hostile.
    """
    known = np.stack(s.peers())
    crafted: Vector = known.mean(axis=0) - s.strength * known.std(axis=0)
    return crafted.astype(delta.dtype)


def ipm(delta: Vector, s: Situation) -> Vector:
    """-strength times the mean of the hostile clients' own updates. Xie et al. 2020, arXiv:1903.03936."""
    mean: Vector = np.stack(s.peers()).mean(axis=0)
    return -s.strength * mean.astype(delta.dtype)


def honest(delta: Vector, s: Situation) -> Vector:
    """The honest update: the lie is in the data (`label_flip`), or beside it (`false_fields`)."""
    return delta


ATTACKS: Mapping[str, tuple[Callable[[Vector, Situation], Vector], float | None]] = {
    "sign_flip": (sign_flip, 1.0),
    "noise": (noise, 10.0),
    "scale": (scale, 10.0),
    "label_flip": (honest, None),
    "alie": (alie, None),
    "ipm": (ipm, 0.5),
    "free_rider": (free_rider, 0.0),
    "false_fields": (honest, 1000.0),
}  # name -> what it sends, and its strength by default


@dataclass(frozen=True, slots=True)
class Hostile:
    """A share of the clients, drawn once per run, that attack: `Population(hostile=Hostile(0.2, "sign_flip"))`.

    `strength` scales the attack; None is the attack's own. `alie` and `ipm` know the hostile clients' own honest
    updates from the same version and nothing else. `label_flip` trains on labels C - 1 - y. `false_fields` claims
    `strength` times its samples, and one local step whatever it did.
    """

    share: float
    attack: str
    strength: float | None = None

    def __post_init__(self) -> None:
        require_number(self.share, "Hostile.share", low=0, below=1, allowed="in [0, 1)")
        require(self.attack in ATTACKS, "Hostile.attack", self.attack, ", ".join(ATTACKS))
        if self.strength is not None:
            require_number(self.strength, "Hostile.strength", low=0, below=math.inf, allowed=">= 0, or None")

    def members(self, clients: int, seed: int) -> frozenset[int]:
        """Who they are in a run with this seed."""
        count = int(self.share * clients + 1e-9)
        return frozenset(stream(seed, "hostile").choice(clients, count, replace=False).tolist())

    def bind(self, clients: int, seed: int) -> Attackers:
        return Attackers(self, self.members(clients, seed), clients, seed)


def poisoned(task: Task, hostile: Hostile | None, seed: int) -> Task:
    """The task with the hostile clients' labels flipped, where that is the attack."""
    if hostile is None or hostile.attack != "label_flip":
        return task
    mislabelled: Callable[..., Task] | None = getattr(task, "mislabelled", None)
    if mislabelled is None:
        raise ConfigError(f"task must be one with class labels, for label_flip; got {task.name}")
    return mislabelled(hostile.members(task.clients, seed))


@dataclass(frozen=True, slots=True)
class Attackers:
    """The hostile clients of one run."""

    rule: Hostile
    members: frozenset[int]
    clients: int
    seed: int
    known: dict[int, tuple[Request, list[Vector]]] = field(default_factory=dict, compare=False)  # by version

    def sent(self, delta: Vector, request: Request, engine: Engine) -> Vector:
        """What this client encodes instead of its update."""
        if request.client not in self.members:
            return delta
        attack, _ = ATTACKS[self.rule.attack]
        rng = stream(self.seed, "attack", request.client, request.session)
        return attack(delta, Situation(self.strength, partial(self._honest, request, engine), rng))

    def claimed(self, update: Update, request: Request) -> Update:
        """What it says about itself: lies that fit each other, since the server refuses those that do not."""
        if self.rule.attack != "false_fields" or update.client not in self.members:
            return update
        weight = request.local.a_norm1(1) if hasattr(request.local, "a_norm1") else update.a_norm1
        return replace(update, samples=update.samples * self.strength, steps=1, a_norm1=float(weight))

    @property
    def strength(self) -> float:
        """As given, or the attack's own."""
        _, own = ATTACKS[self.rule.attack]
        if self.rule.strength is not None:
            return self.rule.strength
        return self._largest_z() if own is None else own

    def _largest_z(self) -> float:
        n, f = self.clients, len(self.members)
        needed = n // 2 + 1 - f
        share = (n - f - needed) / (n - f)
        return max(0.0, NormalDist().inv_cdf(share)) if 0 < share < 1 else 1.0

    def _honest(self, request: Request, engine: Engine) -> list[Vector]:
        """The honest update of each hostile client from the model that this one holds.

        Their sessions are numbered downwards by the version, apart from real ones: a resumed run finds the same.
        """
        known = self.known.get(request.version)
        if known is None or not np.array_equal(known[0].start, request.start):
            requests = [
                replace(request, client=member, data=member, session=-2 - request.version, memory=None)
                for member in sorted(self.members)
            ]
            deltas = [engine.result(each)[: request.start.size] for each in requests]
            known = self.known[request.version] = request, deltas
            while len(self.known) > VERSIONS_KNOWN:
                del self.known[next(iter(self.known))]
        return known[1]
