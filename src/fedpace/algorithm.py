"""An algorithm is a value made of rules. Printing it is its configuration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from fedpace.aggregate import Mean
from fedpace.aggregate.expected import settled
from fedpace.aggregate.protocol import Aggregator
from fedpace.combinations import refuse_impossible
from fedpace.errors import require, require_number
from fedpace.limits import Limits
from fedpace.link import Dense, as_downlink, as_uplink
from fedpace.link.protocol import Downlink, Uplink, bound
from fedpace.local.correction import Correction
from fedpace.local.personal import Personal
from fedpace.pace import Pace, Rounds
from fedpace.privacy.client_dp import ClientDP
from fedpace.server_opt import Momentum
from fedpace.server_opt.protocol import ServerOpt
from fedpace.vector import Layout

STOPS = {  # the rules in the order of an update's journey, as a notebook shows them
    "pace": "client scheduling",
    "local": "local training",
    "correction": "correction",
    "personal": "personalisation",
    "up": "uplink",
    "down": "downlink",
    "aggregate": "aggregation",
    "server_opt": "server step",
    "clip": "clipped at",
}
GUARDS = ("personal", "clip", "limits", "privacy")  # printed only where they differ from the defaults


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Algorithm:
    """The rules of an algorithm, one per stage; any meaningful combination runs, `combinations` lists the others.

    `clip` bounds the Euclidean norm of every decoded update (and of a correction): larger ones are scaled down and
    counted. `limits` bounds the values that clients report.

    >>> from dataclasses import replace
    >>> from fedpace import aggregate, algorithms
    >>> robust = replace(algorithms.fedavg(epochs=1), aggregate=aggregate.Median(), name="median")
    >>> robust.name, robust.aggregate
    ('median', Median(staleness=None))
    """

    local: Any  # 1: local training: SGD, or Torch for any optimizer of torch
    pace: Pace = Rounds()  # 0: client scheduling, and when the server takes a step
    up: Any = Dense()  # 2: a codec, or a link around one
    down: Any = Dense()
    aggregate: Aggregator = Mean()  # 3: many updates -> one
    server_opt: ServerOpt = Momentum()  # 4: one update -> the next model
    correction: Correction | None = None  # what is added to local gradients (SCAFFOLD, FedNova-VR)
    personal: Personal | None = None  # what stays on the clients (Private, Ditto, DynamicTerm)
    per_tensor: bool = False  # codecs work tensor by tensor instead of on the flat vector
    clip: float | None = None
    limits: Limits = Limits()
    privacy: ClientDP | None = None  # noise on the clipped sum, and its accounting
    name: str = ""

    def __post_init__(self) -> None:
        if self.clip is not None:
            require_number(self.clip, "clip", above=0, below=math.inf, allowed="> 0, or None")
        require(isinstance(self.limits, Limits), "limits", self.limits, "a fedpace.limits.Limits")
        if self.privacy is not None:
            private = "a fedpace.privacy.ClientDP, or None"
            require(isinstance(self.privacy, ClientDP), "privacy", self.privacy, private)
        refuse_impossible(self)

    def __repr__(self) -> str:
        said = [f for f in fields(self) if f.name not in GUARDS or getattr(self, f.name) != f.default]
        return f"Algorithm({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in said)})"

    def _repr_html_(self) -> str:
        from fedpace.display import html

        stops = [(label, html.rule(value)) for name, label in STOPS.items() if (value := getattr(self, name))]
        return html.card(self.name or "custom algorithm", html.pairs(stops))

    def bound(
        self, layout: Layout, clients: int = 0, samples: Callable[[int], float] | None = None
    ) -> Algorithm:
        """The algorithm as it runs on a model of this layout and, if they are given, with these clients."""
        rules = (self.aggregate, self.local, self.pace)
        known = self if samples is None else replace(self, aggregate=settled(*rules, clients, samples))
        if not self.per_tensor:
            return known
        return replace(known, up=bound(self.up, layout), down=bound(self.down, layout))

    @property
    def paired(self) -> bool:
        """Whether what the server sums up and what clients remember must agree (SCAFFOLD, FedDyn)."""
        return self.correction is not None or bool(getattr(self.personal, "paired", False))

    @property
    def uplink(self) -> Uplink:
        return as_uplink(self.up)

    @property
    def downlink(self) -> Downlink:
        return as_downlink(self.down)
