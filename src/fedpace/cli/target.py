"""`--target`: a metric and the value to reach."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fedpace.cli.parser import number
from fedpace.untrusted import brief

if TYPE_CHECKING:
    from fedpace.record.report.compare import Target


def target(text: str) -> Target:
    """`accuracy=0.8`, as argparse's `type`."""
    name, _, value = text.partition("=")
    try:
        goal = number(value)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"must be METRIC=VALUE such as accuracy=0.8; got {brief(text)}"
        ) from None
    if name == "accuracy" and not 0 <= goal <= 1:
        raise argparse.ArgumentTypeError(f"accuracy must be a share in [0, 1], such as 0.9; got {value}")
    return name, goal
