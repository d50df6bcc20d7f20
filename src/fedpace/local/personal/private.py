"""Parameters that stay on their client: FedBN, FedPer, FedRep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from fedpace.errors import require
from fedpace.local.personal.parts import Parts
from fedpace.patterns import fitting
from fedpace.vector import Layout, Vector, freeze, settle

if TYPE_CHECKING:
    from fedpace.compute.protocol import Request
    from fedpace.local.personal.protocol import Solve

LAST_LAYER = "last-layer"
BATCH_NORM = "batch-norm"


@dataclass(frozen=True, slots=True)
class Private:
    """Private parameters v_i, which never travel, beside the shared ones w.

    A client overlays the model it receives with its own v_i, trains, and sends the displacement of w alone:

        (w_i, v_i) ← local training on F_i from (w, v_i)     the server sees w_i − w

    `patterns` name them (`"head.*"`, `"norm*"`; any part of a name between dots will do), or are "last-layer": the
    tensors of the last layer, and nothing where it is the only one; "batch-norm": weights and biases of BatchNorm.
    FedPer, Arivazhagan et al., arXiv:1912.00818, Algorithm 1; FedBN, Li et al., arXiv:2102.07623, Algorithm 1.

    `first` is a local rule for v_i alone, as in FedRep, Collins et al., arXiv:2102.07078, Algorithm 1:

        v_i ← steps of `first` on F_i(w, ·)                  w fixed
        w_i ← local training on F_i(·, v_i) from w           v_i fixed, the new one

    Sign: delta = w_i − w. Departures: FedRep's two phases see the same order of samples.
    """

    patterns: tuple[str, ...] | str = (LAST_LAYER,)
    first: Any = None

    own_models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settle(self)
        given = (self.patterns,) if isinstance(self.patterns, str) else self.patterns
        texts = isinstance(given, tuple) and bool(given) and all(isinstance(each, str) for each in given)
        require(texts, "Private.patterns", self.patterns, "patterns of parameter names, such as 'head.*'")
        object.__setattr__(self, "patterns", given)
        able = self.first is None or hasattr(self.first, "work")
        require(able, "Private.first", self.first, "a local rule such as SGD(0.1, epochs=1), or None")
        fresh = not getattr(self.first, "keep_state", False)
        require(fresh, "Private.first", self.first, "a rule without keep_state")

    def parts(self, layout: Layout, batch_norm: Sequence[str]) -> Parts:
        words = [pattern for pattern in self.patterns if pattern in (LAST_LAYER, BATCH_NORM)]
        others = [pattern for pattern in self.patterns if pattern not in words]
        private = set(fitting(layout.names, others, "private")) if others else set()
        private |= _last_layer(layout) if LAST_LAYER in words else set()
        private |= set(batch_norm) if BATCH_NORM in words else set()
        shared = len(private) < len(layout.names)
        require(shared, "private", self.patterns, "patterns that leave some parameters to share")
        return Parts(layout, private)

    def memory_size(self, parts: Parts) -> int:
        return parts.private.size

    def beside(self, steps: int, work: Callable[[Any], int]) -> int:
        return 0 if self.first is None else work(self.first)

    def train(self, request: Request, parts: Parts, initial: Vector, solve: Solve) -> tuple[Vector, Vector]:
        kept = initial if request.memory is None else request.memory
        whole = parts.joined(request.start, kept)
        asked = replace(request, start=whole, memory=None, beside=0)
        if self.first is not None and parts.private.size:
            alone = replace(asked, local=self.first, steps=request.beside, frozen=parts.shared_spans)
            whole = freeze(whole + solve(alone))
            asked = replace(asked, start=whole, frozen=parts.private_spans)
        delta = solve(asked)
        return parts.shared_of(delta), parts.private_of(whole) + parts.private_of(delta)

    def model(self, x: Vector, memory: Vector | None, parts: Parts, initial: Vector) -> Vector:
        return parts.joined(x, initial if memory is None else memory)


def _last_layer(layout: Layout) -> set[str]:
    """The tensors with the last one's prefix; none if these are all."""
    prefix = layout.names[-1].rpartition(".")[0]
    names = {name for name in layout.names if name.rpartition(".")[0] == prefix}
    return names if len(names) < len(layout.names) else set()
