"""An algorithm is a value made of rules. Printing it is its configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedpace.aggregate import Mean
from fedpace.aggregate.protocol import Aggregator
from fedpace.combinations import refuse_impossible
from fedpace.link import Dense, as_downlink, as_uplink
from fedpace.link.protocol import Downlink, Uplink
from fedpace.local import SGD
from fedpace.local.correction import Correction
from fedpace.pace import Pace, Rounds
from fedpace.server_opt import Momentum
from fedpace.server_opt.protocol import ServerOpt


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
    name: str = ""

    def __post_init__(self) -> None:
        refuse_impossible(self)

    @property
    def uplink(self) -> Uplink:
        return as_uplink(self.up)

    @property
    def downlink(self) -> Downlink:
        return as_downlink(self.down)
