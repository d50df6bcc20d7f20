"""Which rules do not go together, and why: the refusal code, a test and a page of the manual in one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedpace.errors import ConfigError

if TYPE_CHECKING:
    from fedpace.algorithm import Algorithm


@dataclass(frozen=True, slots=True)
class Refusal:
    """A combination that has no meaning."""

    what: str
    why: str
    instead: str
    applies: Callable[[Algorithm], bool]


REFUSALS: tuple[Refusal, ...] = ()


def refuse_impossible(algorithm: Algorithm) -> None:
    """Raise ConfigError for the first refusal that applies."""
    for refusal in REFUSALS:
        if refusal.applies(algorithm):
            raise ConfigError(f"{refusal.what} cannot be combined: {refusal.why}; {refusal.instead}")
