"""Past models, each stored once and only as long as it is needed."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedpace.vector import Vector


@dataclass(slots=True)
class Versions:
    """Models by version: the last `keeps`, and those that are held."""

    keeps: int = 1
    newest: int = -1
    models: dict[int, Vector] = field(default_factory=dict)
    holders: dict[int, int] = field(default_factory=dict)  # version -> number of holders

    def add(self, version: int, model: Vector) -> None:
        """A new newest model; the one that falls out of the window goes, unless it is held."""
        self.models[version] = model
        self.newest = version
        self._drop_if_unused(version - self.keeps)

    def hold(self, version: int) -> Vector:
        """Keep this version until `release`."""
        self.holders[version] = self.holders.get(version, 0) + 1
        return self.models[version]

    def release(self, version: int) -> None:
        """Let go of it; -1 names a model that only its client holds."""
        if version < 0:
            return
        left = self.holders[version] - 1
        if left:
            self.holders[version] = left
        else:
            del self.holders[version]
            self._drop_if_unused(version)

    def __getitem__(self, version: int) -> Vector:
        return self.models[version]

    def _drop_if_unused(self, version: int) -> None:
        if version <= self.newest - self.keeps and version not in self.holders:
            self.models.pop(version, None)
