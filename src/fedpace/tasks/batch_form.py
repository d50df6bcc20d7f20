"""From samples to a batch, and from a batch to inputs and targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import default_collate

from fedpace.errors import ConfigError
from fedpace.tasks.examples import Batch

TARGETS = ("labels", "label", "targets", "target", "y")  # the keys that may hold it in a dict

Collate = Callable[[list[Any]], Any]


@dataclass(frozen=True, slots=True)
class BatchForm:
    """`collate`: makes a batch of samples (None: torch's). `own_loss`: a module gets its targets among the inputs."""

    collate: Collate | None = None
    own_loss: bool = False

    def collated(self, samples: list[Any]) -> Any:
        if self.collate is not None:
            return self.collate(samples)
        try:
            return default_collate([_plain(sample) for sample in samples])
        except (RuntimeError, TypeError, ValueError) as error:
            why = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ConfigError(f"samples must make a batch, or collate_fn must make it; got {why}") from error

    def divided(self, batch: object) -> Batch:
        """Inputs and targets."""
        if isinstance(batch, Mapping):
            key = next((key for key in TARGETS if key in batch), None)
            if key is None:
                raise ConfigError(f"a sample must have one of {', '.join(TARGETS)}; got {', '.join(batch)}")
            inputs = {name: part for name, part in batch.items() if name != key or self.own_loss}
            return inputs, batch[key]
        if self.own_loss:
            allowed = "dicts, which the module takes by keyword, where it computes its own loss"
            raise ConfigError(f"batches must be {allowed}; got {type(batch).__name__}")
        if not isinstance(batch, Sequence) or len(batch) < 2:
            raise ConfigError(f"a sample must be (input, target) or a dict; got {type(batch).__name__}")
        *inputs_, target = batch
        return (inputs_[0] if len(inputs_) == 1 else tuple(inputs_)), target


PLAIN = BatchForm()


def _plain(sample: object) -> object:
    """A sample whose lists of numbers, as Hugging Face's data sets have them, are tensors."""
    if isinstance(sample, Mapping):
        return {key: torch.as_tensor(v) if isinstance(v, list) else v for key, v in sample.items()}
    return sample
