"""The constants of the theorems, measured on a task.

All that is needed is `task.solve`: one plain local step of rate 1 on all of a client's data is minus the client's
gradient, one on a batch minus a stochastic gradient. The theorems ask for bounds over all models; measured is what
a few models show, so these numbers are estimates from below (σ², σ_g², L, G²) and say where they come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedpace.compute import Request, Task
from fedpace.compute.inline import solve
from fedpace.errors import require_count
from fedpace.local import SGD
from fedpace.random import stream
from fedpace.theory.setting import Setting
from fedpace.vector import Vector

FULL = SGD(1.0, steps=1, batch_size=None)
DESCENT_STEPS = 10  # of gradient descent at rate 1/(2L) between two models looked at
POWER_STEPS = 10


class MeasuredConstant(NamedTuple):
    """One constant and how it was found."""

    name: str
    value: float
    how: str


@dataclass(frozen=True, slots=True)
class Estimates:
    """Everything that was measured on a task."""

    smoothness: MeasuredConstant  # L
    noise: MeasuredConstant  # σ²
    spread: MeasuredConstant  # σ_g²
    widest: MeasuredConstant  # ν²
    gradient: MeasuredConstant  # G²
    gap: MeasuredConstant  # F_0
    radius: MeasuredConstant  # H
    size: int  # d

    @property
    def all(self) -> tuple[MeasuredConstant, ...]:
        return (
            self.smoothness,
            self.noise,
            self.spread,
            self.widest,
            self.gradient,
            self.gap,
            self.radius,
        )

    def setting(self, clients: int, steps: float, per_round: int | None) -> Setting:
        values = {
            name: getattr(self, name).value
            for name in ("noise", "spread", "gap", "gradient", "widest", "radius")
        }
        return Setting(self.smoothness.value, clients, steps, per_round, size=self.size, **values)


def estimate(
    task: Task, batch_size: int | None, *, models: int = 3, clients: int = 10, batches: int = 8, seed: int = 0
) -> Estimates:
    """Measure at `models` points of gradient descent, on at most `clients` clients, `batches` gradients each."""
    for value, name in ((models, "models"), (clients, "clients"), (batches, "batches")):
        require_count(value, name)
    chosen = some_clients(task, clients, seed)
    look = _Look(task, chosen, batch_size, batches, seed)
    points = look.along(models)
    where = f"{len(chosen)} of {task.clients} clients, {models} models of gradient descent"
    gradients = [look.gradients(x) for x in points]
    apart = [((g - g.mean(axis=0)) ** 2).sum(axis=1) for g in gradients]
    noise, largest = look.noise(points, gradients)
    power = f"largest curvature after {POWER_STEPS} power steps, {where}"
    return Estimates(
        MeasuredConstant("L, smoothness", look.smoothness, power),
        MeasuredConstant("sigma², gradient variance", noise, _batches(batch_size, batches, where)),
        MeasuredConstant(
            "sigma_g², gradient heterogeneity", max(float(a.mean()) for a in apart), f"mean over {where}"
        ),
        MeasuredConstant(
            "nu², largest deviation of a client gradient", max(float(a.max()) for a in apart), where
        ),
        MeasuredConstant("G², squared gradient", largest, f"largest seen, {where}"),
        _gap(task, points[0]),
        MeasuredConstant(
            "H, largest norm of the model", max(float(np.linalg.norm(x)) for x in points), where
        ),
        int(task.layout.size),
    )


def some_clients(task: Task, maximum: int, seed: int) -> list[int]:
    """All clients, or `maximum` of them drawn with probability equal for all."""
    if task.clients <= maximum:
        return list(range(task.clients))
    chosen = stream(seed, "select").choice(task.clients, maximum, replace=False)
    return sorted(int(client) for client in chosen)


def squared_gradient(
    task: Task, x: Vector, clients: Sequence[int], *, by_samples: bool, seed: int = 0
) -> float:
    """||∇f(x)||², f the mean of these clients' objectives or, `by_samples`, their sample-weighted mean."""
    weights = [task.samples(client) for client in clients] if by_samples else None
    gradient = np.average(_Look(task, clients, None, 1, seed).gradients(x), axis=0, weights=weights)
    return float(gradient @ gradient)


class _Look:
    """Gradients of some clients of a task."""

    def __init__(self, task: Task, clients: Sequence[int], batch_size: int | None, batches: int, seed: int):
        self.task, self.clients, self.batches, self.seed = task, clients, batches, seed
        self.local = SGD(1.0, steps=1, batch_size=batch_size)
        self.smoothness = 0.0

    def gradient(self, client: int, x: Vector, local: SGD = FULL, session: int = 0) -> Vector:
        request = Request(client, session, x, -1, local, 1, self.seed, data=client)
        gradient: Vector = -solve(self.task, request).astype(np.float64)
        return gradient

    def gradients(self, x: Vector) -> Any:
        return np.array([self.gradient(client, x) for client in self.clients])

    def along(self, models: int) -> list[Vector]:
        """The initial model, and those after 10, 20, ... steps of gradient descent; L is the largest on the way."""
        points = [self.task.initial(self.seed)]
        self.smoothness = self._curvature(points[0])
        while len(points) < models:
            x = points[-1]
            for _ in range(DESCENT_STEPS):
                x = (x - self.gradients(x).mean(axis=0) / (2 * self.smoothness)).astype(x.dtype)
            points.append(x)
            self.smoothness = max(self.smoothness, self._curvature(x))
        return points

    def _curvature(self, x: Vector) -> float:
        return max(self._curvature_of(client, x) for client in self.clients) or 1e-12

    def _curvature_of(self, client: int, x: Vector) -> float:
        """Power iteration on (∇F_i(x + h v) − ∇F_i(x)) / h."""
        v = stream(self.seed, "init", client).normal(size=x.size)
        at, size = self.gradient(client, x), 0.0
        h = 1e-2 * max(1.0, float(np.linalg.norm(x)) / x.size**0.5)
        for _ in range(POWER_STEPS):
            v /= np.linalg.norm(v) or 1.0
            v = (self.gradient(client, (x + h * v).astype(x.dtype)) - at) / h
            size = float(np.linalg.norm(v))
            if size == 0:
                break
        return size

    def noise(self, points: Sequence[Vector], gradients: Sequence[Any]) -> tuple[float, float]:
        """The largest variance of a client, and the largest squared (stochastic) gradient."""
        variance, largest = 0.0, 0.0
        for x, at_x in zip(points, gradients, strict=True):
            for client, g in zip(self.clients, at_x, strict=True):
                drawn = [self.gradient(client, x, self.local, session) for session in range(self.batches)]
                variance = max(variance, float(np.mean([((b - g) ** 2).sum() for b in drawn])))
                largest = max(largest, float(g @ g), *(float(b @ b) for b in drawn))
        return variance, largest


def _batches(batch_size: int | None, batches: int, where: str) -> str:
    return f"largest of a client, {batches} batches of {batch_size or 'all its'} samples, {where}"


def _gap(task: Any, x: Vector) -> MeasuredConstant:
    """f(x_0) − f*: the training loss, less that at the optimum where it is known, else less 0."""
    if not hasattr(task, "training_loss"):
        return MeasuredConstant(
            "F_0, initial loss minus the optimum",
            float(task.evaluate(x)["loss"]),
            "test loss, best taken as 0",
        )
    loss = float(task.training_loss(x))
    if hasattr(task, "optimum"):
        return MeasuredConstant(
            "F_0, initial loss minus the optimum", loss - float(task.training_loss(task.optimum)), "exact"
        )
    return MeasuredConstant(
        "F_0, initial loss minus the optimum", loss, "training loss at the start, best taken as 0"
    )
