"""Which parameters of a module are trained: adapters of a large model, or its head."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from fedpace.patterns import fitting


def freeze_all_but(module: nn.Module, patterns: Sequence[str]) -> None:
    """Only parameters with a fitting name require a gradient afterwards; every pattern must fit one."""
    named = dict(module.named_parameters())
    chosen = set(fitting(list(named), patterns, "trainable"))
    for name, p in named.items():
        p.requires_grad_(name in chosen)
