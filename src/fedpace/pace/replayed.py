"""Rounds whose clients start from models of the recent past, drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index

from fedpace.errors import ConfigError, require, require_count
from fedpace.pace.available import Draw
from fedpace.pace.protocol import OnDemand, Order, Send
from fedpace.pace.rounds import DrawnRounds, RoundsState
from fedpace.pace.select import Selection, Uniform
from fedpace.untrusted import brief


@dataclass(frozen=True, slots=True)
class Replayed(DrawnRounds):
    """Delay without a clock: each chosen client starts from one of the last `history` models.

    Sun et al., AAAI 2024, App. H.1: delay uniform on {0..R-1}, R = `history`, truncated to t at the start.
    `delays` scripts them: one list per round, aligned with the clients in the order of the choice.
    """

    history: int = 5
    clients_per_round: int | None = None
    select: Selection = Uniform()
    delays: Sequence[Sequence[int]] | None = None

    client = OnDemand()

    def __post_init__(self) -> None:
        require_count(self.history, "Replayed.history")
        if self.clients_per_round is not None:
            require_count(self.clients_per_round, "clients_per_round")
        if self.delays is not None:
            delays = _numbers(self.delays)
            allowed = f"delays in 0..history-1 = 0..{self.history - 1}"
            require(all(0 <= d < self.history for g in delays for d in g), "Replayed.delays", delays, allowed)
            object.__setattr__(self, "delays", delays)

    @property
    def keeps(self) -> int:
        return self.history

    def orders(
        self, chosen: Sequence[int], version: int, now: float, state: RoundsState, draw: Draw
    ) -> tuple[Order, ...]:
        delays = dict(zip(chosen, self._delays(state.asked - 1, len(chosen), draw), strict=True))
        called = state.cohort.call(chosen)
        return tuple(Send(client, max(0, version - delays[client])) for client in called)

    def _delays(self, asked: int, count: int, draw: Draw) -> Sequence[int]:
        if self.delays is None:
            return draw().integers(self.history, size=count).tolist()  # type: ignore[no-any-return]
        scripted = self.delays[asked] if asked < len(self.delays) else ()
        require(len(scripted) == count, f"Replayed.delays of round {asked}", scripted, f"{count} delays")
        return scripted


def _numbers(delays: object) -> tuple[tuple[int, ...], ...]:
    try:
        return tuple(tuple(map(index, group)) for group in delays)  # type: ignore[attr-defined]
    except TypeError:
        raise ConfigError(
            f"Replayed.delays must be a list of whole numbers for each round; got {brief(delays)}"
        ) from None
