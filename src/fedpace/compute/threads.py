"""How many threads local training may use: one, so that its bits do not depend on the machine's cores."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread, if it is there at all; as it was afterwards."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch is not None else 1
    if torch is None or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
