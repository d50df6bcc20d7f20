"""Exact quadratics in float64: the laboratory in which every identity is tested."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedpace.errors import ConfigError, require
from fedpace.local import Stopped, descend_until
from fedpace.tasks.fingerprint import shown
from fedpace.vector import Layout, Vector, freeze

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request

ROUNDING = 1e-12  # relative to a matrix's largest entry: what counts as symmetric


class Quadratics:
    """F_i(x) = (x - b_i)' H_i (x - b_i) / 2 for every client i, with exact gradients.

    Where no operation rounds (dyadic numbers) every result is exact: the gradient is H_i (x - b_i), formed
    in that order, and a scalar H_i is multiplied directly.
    """

    name = "quadratics"
    freezes = True

    def __init__(self, centers: Vector, curvatures: Vector | None, weights: Vector | None, initial: Vector):
        self.centers, self.curvatures, self.weights = centers, curvatures, weights
        self.clients, size = centers.shape
        self.layout = Layout.of({"x": (size,)})
        self._initial = initial
        self.optimum = freeze(self._optimum())

    def initial(self, seed: int) -> Vector:
        """The same for every seed."""
        return self._initial

    def samples(self, client: int) -> float:
        return 1.0 if self.weights is None else float(self.weights[client])

    def solve(self, request: Request) -> Vector:
        delta, _ = self.train_until(request, None)
        return delta

    def train_until(self, request: Request, stopped: Stopped | None) -> tuple[Vector, int]:
        return descend_until(
            lambda y, _: self.gradient(request.data, y),
            np.asarray(request.start, dtype=np.float64),
            request.local,
            request.steps,
            stopped,
            request.correction,
            request.frozen,
        )

    def gradient(self, client: int, x: Vector) -> Vector:
        """∇F_i(x) = H_i (x - b_i)."""
        distance: Vector = x - self.centers[client]
        if self.curvatures is None:
            return distance
        h = self.curvatures[client]
        curved: Vector = h * distance if h.ndim == 0 else h @ distance
        return curved

    def objective(self, client: int, x: Vector) -> float:
        """F_i(x)."""
        return float(np.dot(x - self.centers[client], self.gradient(client, x))) / 2

    def evaluate(self, x: Vector) -> Mapping[str, float]:
        """The weighted mean objective, and the distance of `x` from its minimum."""
        return {"loss": self.training_loss(x), "distance": float(np.linalg.norm(x - self.optimum))}

    def evaluate_client(self, x: Vector, client: int) -> Mapping[str, float]:
        """F_i of a client's own model."""
        return {"loss": self.objective(client, x)}

    def training_loss(self, x: Vector) -> float:
        """Σ n_i F_i(x) / Σ n_i."""
        distance = x - self.centers
        losses = np.einsum("nd,nd->n", distance, self._curved(distance)) / 2
        return float(np.average(losses, weights=self.weights))

    def _curved(self, v: Vector) -> Vector:
        """H_i v_i for all clients at once."""
        if self.curvatures is None:
            return v
        if self.curvatures.ndim == 1:
            return np.multiply(self.curvatures[:, None], v)
        curved: Vector = np.einsum("nij,nj->ni", self.curvatures, v)
        return curved

    def _optimum(self) -> Vector:
        """x* = (Σ n_i H_i)^-1 Σ n_i H_i b_i."""
        weights = np.ones(self.clients) if self.weights is None else self.weights
        pull = weights @ self._curved(self.centers)
        total = weights.sum() if self.curvatures is None else np.tensordot(weights, self.curvatures, axes=1)
        optimum: Vector = pull / total if total.ndim == 0 else np.linalg.solve(total, pull)
        return optimum

    def __repr__(self) -> str:
        fields = {
            "centers": self.centers,
            "curvatures": self.curvatures,
            "weights": self.weights,
            "initial": self._initial,
        }
        return f"quadratics({', '.join(f'{name}={shown(value)}' for name, value in fields.items())})"


def quadratics(
    centers: npt.ArrayLike,
    curvatures: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    initial: npt.ArrayLike = 0.0,
) -> Quadratics:
    """One quadratic per client, in float64.

    `centers` b: (N,) or (N, d). `curvatures` H: None (identity), (N,) or (N, d, d). `weights`: real-valued
    sample counts, (N,). `initial`: a number or (d,).

    >>> from fedpace import tasks
    >>> task = tasks.quadratics([1.0, 2.0, 6.0])
    >>> task.clients, float(task.optimum[0])
    (3, 3.0)
    """
    b = _array(centers, "centers")
    require(b.ndim in (1, 2) and b.size > 0, "quadratics centers", b.shape, "of shape (N,) or (N, d)")
    b = b.reshape(len(b), -1)
    return Quadratics(
        freeze(b),
        None if curvatures is None else freeze(_curvatures(curvatures, *b.shape)),
        None if weights is None else freeze(_weights(weights, len(b))),
        freeze(_initial(initial, b.shape[1])),
    )


def _array(value: npt.ArrayLike, what: str) -> Vector:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"quadratics {what} must be an array of numbers; got {value!r}") from None
    require(bool(np.isfinite(array).all()), f"quadratics {what}", value, "finite")
    return array


def _curvatures(value: npt.ArrayLike, clients: int, size: int) -> Vector:
    h = _array(value, "curvatures")
    allowed = ((clients,), (clients, size, size))
    require(h.shape in allowed, "quadratics curvatures", h.shape, f"of shape {allowed[0]} or {allowed[1]}")
    if h.ndim == 1:
        require(bool((h > 0).all()), "quadratics curvatures", h.tolist(), "> 0")
        return h
    h = _symmetric(h)
    require(bool((np.linalg.eigvalsh(h) > 0).all()), "quadratics curvatures", h.tolist(), "positive definite")
    return h


def _symmetric(h: Vector) -> Vector:
    """The mean of each matrix and its transpose: a product such as Q D Q' is symmetric up to rounding only."""
    mirrored = h.transpose(0, 2, 1)
    within = np.abs(h - mirrored) <= ROUNDING * np.abs(h).max(axis=(1, 2), keepdims=True)
    require(bool(within.all()), "quadratics curvatures", h.tolist(), "symmetric, up to rounding")
    halves: Vector = h / 2 + mirrored / 2
    return halves


def _weights(value: npt.ArrayLike, clients: int) -> Vector:
    w = _array(value, "weights")
    require(w.shape == (clients,), "quadratics weights", w.shape, f"of shape {(clients,)}")
    require(bool((w > 0).all()), "quadratics weights", w.tolist(), "> 0")
    return w


def _initial(value: npt.ArrayLike, size: int) -> Vector:
    x = _array(value, "initial")
    require(x.shape in ((), (size,)), "quadratics initial", x.shape, f"a number or of shape {(size,)}")
    return np.full(size, x) if x.ndim == 0 else x
