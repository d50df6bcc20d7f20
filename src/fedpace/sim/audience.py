"""The observers of a run, told what happens as it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVarTuple

from fedpace.errors import Stop
from fedpace.sim.observer import HOOKS, Observer

Facts = TypeVarTuple("Facts")
OF_SESSIONS = ("began", "trained", "ended")


class Audience:
    """The observers of a run. A `Stop` raised by one is remembered, and the others are still told."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self.observers: list[Observer] = []
        self.stop: Stop | None = None
        self.follows_sessions = False  # whether any observer is told of every session
        self._hooks: dict[Callable[..., None], list[Callable[..., None]]] = {
            getattr(Observer, hook): [] for hook in HOOKS
        }
        for observer in observers:
            self.add(observer)

    def add(self, observer: Observer) -> None:
        self.observers.append(observer)
        for hook, told in self._hooks.items():
            if observer.wants(hook.__name__):
                told.append(getattr(observer, hook.__name__))
        self.follows_sessions = any(map(self.wants, OF_SESSIONS))

    def wants(self, hook: str) -> bool:
        return bool(self._hooks[getattr(Observer, hook)])

    def tell(self, what: Callable[[Any, *Facts], None], *about: *Facts) -> None:
        """Call this hook of `Observer` in every observer that overrides it."""
        for hook in self._hooks[what]:
            try:
                hook(*about)
            except Stop as stop:
                self.stop = self.stop or stop

    def stop_for(self, reason: str | None) -> None:
        """End the run for this reason, if there is one; a private run ends before its budget is exceeded."""
        if reason is not None:
            self.stop = self.stop or Stop(reason)
