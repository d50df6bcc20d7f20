"""An algorithm is a value made of rules. Printing it is its configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fedpace.aggregate import Mean
from fedpace.aggregate.expected import settled
from fedpace.aggregate.protocol import Aggregator
from fedpace.combinations import refuse_impossible
from fedpace.link import Dense, as_downlink, as_uplink
from fedpace.link.bind import bound
from fedpace.link.protocol import Downlink, Uplink
from fedpace.local import SGD
from fedpace.local.correction import Correction
from fedpace.pace import Pace, Rounds
from fedpace.server_opt import Momentum
from fedpace.server_opt.protocol import ServerOpt
from fedpace.vector import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """One rule per stop of the journey; any combination that makes sense runs, `combinations` says which do not."""

    local: SGD  # 1: what a client computes
    pace: Pace = Rounds()  # 0: who works when
    up: Any = Dense()  # 2: a codec, or a link around one
    down: Any = Dense()
    aggregate: Aggregator = Mean()  # 3: many updates -> one
    server_opt: ServerOpt = Momentum()  # 4: one update -> the next model
    correction: Correction | None = None  # what is added to local gradients (SCAFFOLD, FedNova-VR)
    per_tensor: bool = False  # codecs work tensor by tensor instead of on the flat vector
    name: str = ""

    def __post_init__(self) -> None:
        refuse_impossible(self)

    def bound(
        self, layout: Layout, clients: int = 0, samples: Callable[[int], float] | None = None
    ) -> Algorithm:
        """The algorithm as it runs on a model of this layout and, if they are told, with these clients."""
        rules = (self.aggregate, self.local, self.pace)
        known = self if samples is None else replace(self, aggregate=settled(*rules, clients, samples))
        if not self.per_tensor:
            return known
        return replace(known, up=bound(self.up, layout), down=bound(self.down, layout))

    @property
    def uplink(self) -> Uplink:
        return as_uplink(self.up)

    @property
    def downlink(self) -> Downlink:
        return as_downlink(self.down)
