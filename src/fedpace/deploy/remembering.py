"""Whether a client that greets remembers what the server knows of it; else both begin anew with each other.

A disk may be new or an old backup, and so may the server. Numbers of sessions alone do not tell: once a backup was put
back they are used again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedpace.deploy.state import CoordinatorState


def remembers(state: CoordinatorState, client: int, taken: int, hello: Mapping[str, Any]) -> bool:
    """Whether the client's memories are those after the session that was taken last."""
    acknowledged, upload = hello["acknowledged"], hello["upload"]
    unheard = acknowledged < taken == upload and _is_same(state, client, hello)  # the answer
    same = (acknowledged == taken or unheard) and not _is_behind(state, client, hello)
    return same and not _is_ahead(state, hello["stamp"])


def _is_same(state: CoordinatorState, client: int, hello: Mapping[str, Any]) -> bool:
    """Whether its upload is the one that was taken, and not another of the same number."""
    return "origin" not in hello or hello["origin"] == state.taken_from.get(client, 0)


def _is_behind(state: CoordinatorState, client: int, hello: Mapping[str, Any]) -> bool:
    """Whether it heard last from this server before its memories were forgotten: its disk is older."""
    known = "origin" in hello and len(hello["stamp"]) == 2  # those without did not note a welcome
    return known and hello["stamp"][1] < state.forgotten_at.get(client, 0)


def _is_ahead(state: CoordinatorState, stamp: Sequence[int]) -> bool:
    """Whether it heard from this run's server at a moment which this server never came to.

    The server is then a copy of an older state, and what the client sends may bear the numbers of models that were
    others.
    """
    if len(stamp) != 2 or tuple(stamp) == (0, 0):
        return False
    began = [at for _, at in state.incarnations]
    ends = dict(zip((name for name, _ in state.incarnations), [*began[1:], math.inf], strict=True))
    return bool(stamp[1] > ends.get(stamp[0], -1))
