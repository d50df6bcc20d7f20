"""Modules that compute their own loss: `forward(**batch)` returns it, as Hugging Face's models do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from fedpace.errors import ConfigError
from fedpace.tasks.objective import Call


@dataclass(frozen=True, slots=True)
class WithOwnLoss:
    """Calls a module with its targets among the inputs, and returns the loss and the scores that it puts out."""

    call: Call

    def __call__(self, module: nn.Module, inputs: Any) -> dict[str, Any]:
        output = self.call(module, inputs)
        loss = part_of(output, "loss")
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            got = type(output).__name__ if loss is None else f"a loss of type {type(loss).__name__}"
            raise ConfigError(
                f"model must return its loss, one number, as output.loss without a loss; got {got}"
            )
        scores = part_of(output, "logits")
        return {"loss": loss, **({"logits": scores} if isinstance(scores, Tensor) else {})}


def part_of(output: Any, name: str) -> Any:
    """An entry or an attribute; None where there is none."""
    return output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)


def own_loss(output: Any, target: Any) -> Tensor:
    loss: Tensor = output["loss"]
    return loss.reshape(())


def logits(output: Any) -> Any:
    return output.get("logits")
