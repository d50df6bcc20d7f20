"""The losses that compiled steps know."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from torch import nn
from torch.nn import functional

from fedpace.tasks.fast.layer_loops import CROSS_ENTROPY, LOGITS, PROBABILITIES, SQUARED

FUNCTIONS = {
    functional.cross_entropy: CROSS_ENTROPY,
    functional.mse_loss: SQUARED,
    functional.binary_cross_entropy_with_logits: LOGITS,
    functional.binary_cross_entropy: PROBABILITIES,
}
MODULES: dict[type, int] = {
    nn.CrossEntropyLoss: CROSS_ENTROPY,
    nn.MSELoss: SQUARED,
    nn.BCEWithLogitsLoss: LOGITS,
    nn.BCELoss: PROBABILITIES,
}
EXTRAS = ("weight", "pos_weight")


class Loss(NamedTuple):
    kind: int
    smoothing: float = 0.0

    @property
    def has_labels(self) -> bool:
        return self.kind == CROSS_ENTROPY


def known_loss(loss: object) -> Loss | None:
    """The mean over a batch that `loss` is, if it is one of these without extras."""
    if type(loss) is partial:
        return _with_keywords(loss)
    if type(loss) not in MODULES:
        kind = FUNCTIONS.get(loss) if callable(loss) else None  # type: ignore[call-overload]
        return None if kind is None else Loss(kind)
    extras = any(getattr(loss, name, None) is not None for name in EXTRAS)
    if extras or getattr(loss, "reduction", "") != "mean" or getattr(loss, "ignore_index", -1) >= 0:
        return None
    return Loss(MODULES[type(loss)], getattr(loss, "label_smoothing", 0.0))


def _with_keywords(loss: partial[Any]) -> Loss | None:
    """Of a function with `label_smoothing`, and `reduction` where that is a mean."""
    kind, given = FUNCTIONS.get(loss.func), {"reduction": "mean", **loss.keywords}
    smoothing = given.pop("label_smoothing", 0.0) if kind == CROSS_ENTROPY else 0.0
    if kind is None or loss.args or given != {"reduction": "mean"}:
        return None
    return Loss(kind, float(smoothing))
