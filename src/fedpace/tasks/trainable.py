"""Which parameters of a module are trained: adapters of a large model, or its head."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from fedpace.errors import ConfigError


def freeze_all_but(module: nn.Module, patterns: Sequence[str]) -> None:
    """Only parameters with a fitting name require a gradient afterwards; every pattern must fit one."""
    names = [name for name, _ in module.named_parameters()]
    for pattern in patterns:
        if not any(fits(name, pattern) for name in names):
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            raise ConfigError(f"trainable must fit the name of a parameter ({shown}); got {pattern!r}")
    for name, p in module.named_parameters():
        p.requires_grad_(any(fits(name, pattern) for pattern in patterns))


def fits(name: str, pattern: str) -> bool:
    """Whether a pattern fits a name from one of its dots on: `lora_*` fits `layers.0.lora_A.weight`."""
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[k:]), pattern) for k in range(len(parts)))
