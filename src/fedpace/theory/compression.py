"""How good a compressor is on real updates: q of Assumption 3.4, γ and λ of Assumption C.1, as in Figure 21.

"Bidirectional communication-efficient non-convex adaptive federated learning", (C.14) and (C.15):

    ||C(mean(Δ_i + e_i)) − mean C(Δ_i + e_i)|| <= γ ||mean Δ_i||         compress-then-average, average-then-compress
    ||mean_{i judged} (C_i − what replaces it)|| <= λ ||mean Δ_i||        what the lazy rule changes

The theorems need both to be small constants; the paper shows them in a picture without numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.compute import Request, Task
from fedpace.compute.inline import solve
from fedpace.link import Codec, ErrorFeedback, Lazy, Quantize
from fedpace.local import SGD
from fedpace.random import stream
from fedpace.vector import Vector

CACHE_DRAWS = 8


class Quality(NamedTuple):
    """One round: the largest q of a client, γ, λ, and the share of lazy clients."""

    q: float
    gamma: float
    lam: float
    fired: float


def codec_of(link: Any) -> Codec | None:
    """The codec of a link, or itself; None where vectors go as they are."""
    found: Codec | None = link if isinstance(link, Codec) else getattr(link, "codec", None)
    return found


def worst_quality(codec: Codec | None, size: int) -> float:
    """q that holds for every vector of this size: the codec's own claim; 1 where it makes none."""
    if codec is None:
        return 0.0
    claim = getattr(codec, "contraction", None)
    squared = claim(size) if claim is not None else 1.0
    return math.sqrt(max(0.0, 1.0 if squared is None else squared))


def quality(codec: Codec | None, v: Vector) -> float:
    """||C(v) − v|| / ||v|| of one vector."""
    norm = _norm(v)
    return _norm(_through(codec, v) - v) / norm if norm else 0.0


def measure(
    task: Task, algorithm: Algorithm, clients: Sequence[int], rounds: int = 5, seed: int = 0
) -> list[Quality]:
    """q, γ and λ of the first rounds of `algorithm` with these clients, all of them in every round."""
    algorithm = algorithm.bound(task.layout)
    x, judge = task.initial(seed), _Judge(algorithm.up)
    state, found = algorithm.server_opt.init(x), []
    for t in range(rounds):
        seen, used = judge.round(
            {client: _delta(task, algorithm.local, x, client, t, seed) for client in clients}
        )
        found.append(seen)
        x, state = algorithm.server_opt.apply(x, used, state)
    return found


def _delta(task: Task, local: SGD, x: Vector, client: int, t: int, seed: int) -> Vector:
    steps = local.work(client, t, task.samples(client), 1.0, stream(seed, "work", client, t))
    return solve(task, Request(client, t, x, t, local, steps, seed, data=client))


class _Judge:
    """An uplink as both ends see it: error memories, and the values that new ones are compared with."""

    def __init__(self, up: Any) -> None:
        link = up.link if isinstance(up, Lazy) else up
        self.codec, self.lazy = codec_of(link), up if isinstance(up, Lazy) else None
        self.memory = link.memory if isinstance(link, ErrorFeedback) else None
        self.owed: dict[int, Vector] = {}  # e_i
        self.held: dict[int, Vector] = {}

    def round(self, deltas: Mapping[int, Vector]) -> tuple[Quality, Vector]:
        owed = {i: d + self.owed[i] if i in self.owed else d for i, d in deltas.items()}
        sent = {i: _through(self.codec, p) for i, p in owed.items()}
        fired = [i for i, c in sent.items() if self._fires(i, c)]
        used = {i: self._used(i, c) if i in fired else c for i, c in sent.items()}
        found = Quality(
            q=max(_norm(sent[i] - p) / (_norm(p) or 1.0) for i, p in owed.items()),
            gamma=_norm(_through(self.codec, _mean(owed.values())) - _mean(sent.values())),
            lam=_norm(_mean([sent[i] - self.held[i] for i in fired])) if fired else 0.0,
            fired=len(fired) / len(deltas),
        )
        self._remember(owed, sent, used)
        size = _norm(_mean(deltas.values())) or 1.0
        return found._replace(gamma=found.gamma / size, lam=found.lam / size), _mean(used.values())

    def _fires(self, client: int, c: Vector) -> bool:
        if self.lazy is None or client not in self.held or self.lazy.tau <= 0:
            return False
        return _norm(c - self.held[client]) <= self.lazy.tau * _norm(self.held[client])

    def _used(self, client: int, c: Vector) -> Vector:
        aa = self.lazy is not None and self.lazy.rule == "aa"
        return self.held[client] + c if aa else self.held[client]

    def _remember(
        self, owed: Mapping[int, Vector], sent: Mapping[int, Vector], used: Mapping[int, Vector]
    ) -> None:
        subtracted = used if self.memory == "judged" else sent
        if self.memory is not None:
            self.owed |= {i: p - subtracted[i] for i, p in owed.items()}
        self.held |= sent if self.lazy is not None and self.lazy.rule == "aa" else used


def _through(codec: Codec | None, v: Vector) -> Vector:
    return v if codec is None else codec.decode(codec.encode(v, stream(0, "up")), v.size)


def _norm(v: Vector) -> float:
    return float(np.linalg.norm(v))


def _mean(vectors: Iterable[Vector]) -> Vector:
    mean: Vector = np.mean(list(vectors), axis=0)
    return mean


def cache_quality(task: Task, algorithm: Algorithm, client: int, seed: int = 0) -> float | None:
    """E||Q(x) − x||² / ||x||² of a quantised cache (MF-CA2FL) on one client's first update; None: not quantised."""
    bits: int | None = getattr(algorithm.aggregate, "bits", None)
    if bits is None or bits == 32:
        return None
    codec = Quantize(bits)
    v = _delta(task, algorithm.local, task.initial(seed), client, 0, seed)
    norm = float(v @ v) or 1.0
    lost = [
        codec.decode(codec.encode(v, stream(seed, "cache", draw)), v.size) - v for draw in range(CACHE_DRAWS)
    ]
    return float(np.mean([float(e @ e) for e in lost])) / norm
