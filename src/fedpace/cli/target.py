"""`--target`: a metric and the value to reach."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fedpace.cli.parser import number
from fedpace.errors import ConfigError
from fedpace.untrusted import brief

if TYPE_CHECKING:
    from fedpace.record.report.compare import Target


def stop(text: str) -> tuple[str, float | int | str]:
    """`accuracy=0.8`, `patience=10`, `traffic=5MB`, `virtual_seconds=300` or `real_seconds=60`, for argparse."""
    from fedpace.record.run.stopping import stop_rules

    name, _, value = text.partition("=")
    pair: tuple[str, float | int | str]
    try:
        pair = (name, int(value) if value.isdecimal() else float(value))
    except ValueError:
        pair = (name, value)
    try:
        stop_rules(dict([pair]))
    except ConfigError as error:
        raise argparse.ArgumentTypeError(f"must be such as accuracy=0.8 or patience=10: {error}") from None
    return pair


def target(text: str) -> Target:
    """`accuracy=0.8`, for argparse."""
    name, _, value = text.partition("=")
    try:
        goal = number(value)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"must be METRIC=VALUE such as accuracy=0.8; got {brief(text)}"
        ) from None
    if name == "accuracy" and not 0 <= goal <= 1:
        raise argparse.ArgumentTypeError(f"accuracy must be in [0, 1], such as 0.9; got {value}")
    return name, goal
