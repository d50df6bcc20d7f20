"""The types a state may be made of, so that a checkpoint can store it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

_LEAVES = (type(None), bool, int, float, str, bytes, np.ndarray, np.generic)


def assert_plain(value: Any, where: str) -> None:
    """Dataclasses, tuples, lists, dicts, sets, arrays, numbers, text and bytes, all the way down."""
    if isinstance(value, _LEAVES):
        return
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            assert_plain(getattr(value, field.name), f"{where}.{field.name}")
    elif isinstance(value, dict):
        for key, entry in value.items():
            assert_plain(key, f"a key of {where}")
            assert_plain(entry, f"{where}[{key!r}]")
    else:
        plain = isinstance(value, (tuple, list, set, frozenset))
        assert plain, f"{where} is a {type(value).__name__}, which a checkpoint cannot keep"
        for at, entry in enumerate(value):
            assert_plain(entry, f"{where}[{at}]")
