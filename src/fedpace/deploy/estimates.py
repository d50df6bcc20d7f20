"""Running statistics of models with normalisers: sums that clients sent, pooled once the server waits no longer.

Which clients' sums were taken is an input, so that a replay ends in the same statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedpace.deploy.messages import Message
from fedpace.deploy.state import CoordinatorState
from fedpace.errors import FedpaceError
from fedpace.link import Dense
from fedpace.tasks.pooling import Channels, check_sums, pooled, sums_size
from fedpace.vector import Vector

MOST_VERSIONS = 8  # of which anything is kept: clients choose the numbers that they send


def add(state: CoordinatorState, channels: Channels, client: int, message: Message) -> None:
    """What a client added up; nothing counts that comes after the pooling, or makes no sense."""
    version = message.header["version"]
    if version in state.statistics or version < min(state.statistics, default=0):
        return
    try:
        sums = _read(message, channels)
    except FedpaceError:
        sums = np.empty(0)  # an answer all the same: nobody waits for another
    state.sums.setdefault(version, {})[client] = (float(message.header["samples"]), sums)
    _keep_newest(state.sums)


def pool(state: CoordinatorState, channels: Channels, version: int, clients: Sequence[int]) -> None:
    answers = state.sums.pop(version, {})
    taken = [answers[client] for client in clients if client in answers and answers[client][1].size]
    if taken:
        state.statistics[version] = pooled(taken, channels)
        _keep_newest(state.statistics)


def newest(state: CoordinatorState) -> Vector | None:
    """Those of the newest model that has some."""
    return state.statistics[max(state.statistics)] if state.statistics else None


def _read(message: Message, channels: Channels) -> Vector:
    if "sums" not in message.frames:
        return np.empty(0)
    sums = Dense("fp64").decode(message.frames["sums"], sums_size(channels))
    check_sums(sums, channels)
    return sums


def _keep_newest(by_version: dict[int, Any]) -> None:
    for version in sorted(by_version)[:-MOST_VERSIONS]:
        del by_version[version]
