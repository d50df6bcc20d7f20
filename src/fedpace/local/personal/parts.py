"""A model in two parts: the parameters that travel, and those that stay on the client."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedpace.vector import Layout, Spans, Vector, freeze


class Parts:
    """Whole tensors, each shared or private; both parts keep the order of the whole model."""

    def __init__(self, layout: Layout, private: Iterable[str] = ()) -> None:
        self.whole, names = layout, set(private)
        self.shared = _chosen(layout, [name not in names for name in layout.names])
        self.private = _chosen(layout, [name in names for name in layout.names])
        spans = list(zip(layout.names, layout.offsets, layout.offsets[1:], strict=False))
        self.private_spans: Spans = tuple((low, high) for name, low, high in spans if name in names)
        self.shared_spans: Spans = tuple((low, high) for name, low, high in spans if name not in names)

    def joined(self, shared: Vector, private: Vector) -> Vector:
        """The whole model; `shared` itself where nothing is private."""
        if not self.private.size:
            return shared
        whole = np.empty(self.whole.size, shared.dtype)
        _write(whole, self.shared_spans, shared)
        _write(whole, self.private_spans, private)
        return freeze(whole)

    def shared_of(self, whole: Vector) -> Vector:
        """The part that travels; `whole` itself where nothing is private."""
        return _read(whole, self.shared_spans) if self.private.size else whole

    def private_of(self, whole: Vector) -> Vector:
        """The part that stays."""
        return _read(whole, self.private_spans)


def _chosen(layout: Layout, chosen: list[bool]) -> Layout:
    shapes = zip(layout.names, layout.shapes, chosen, strict=True)
    return Layout.of({name: shape for name, shape, taken in shapes if taken})


def _read(whole: Vector, spans: Spans) -> Vector:
    return np.concatenate([whole[:0], *(whole[low:high] for low, high in spans)])


def _write(whole: Vector, spans: Spans, part: Vector) -> None:
    at = 0
    for low, high in spans:
        whole[low:high] = part[at : at + high - low]
        at += high - low
