"""The server's models on the downlink: published once per version, encoded for the clients that take them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.kernels.memory import LONG_BYTES
from fedpace.link import CONTROL, Full
from fedpace.link.protocol import Context, Downlink
from fedpace.random import stream
from fedpace.server.messages import Parcel
from fedpace.server.state import ServerState
from fedpace.vector import Vector, freeze


@dataclass(frozen=True, slots=True)
class Models:
    """The downlink of one run, applied to the server's state."""

    algorithm: Algorithm
    down: Downlink
    clients: int
    seed: int

    def publish(self, s: ServerState) -> Vector:
        """Make the newest model available, as the clients will reconstruct it; the model as the server holds it."""
        rng = stream(self.seed, "down", s.version)
        s.down = self.down.publish(s.x, s.version, s.down, rng)
        model = s.x
        if self.down.shared:
            model, _ = self.down.receive(self._frame(0, s.version, s.x, s), None, s.x.size)
        s.versions.add(s.version, freeze(model))
        if s.version and self.down == Full() and model.nbytes >= LONG_BYTES and model.dtype == np.float32:
            s.x = s.versions[s.version]  # the same numbers, and a long vector less
        return s.x

    def parcel(self, client: int, version: int, round: int, s: ServerState) -> Parcel:
        """A model for one client, now."""
        frames, model = {}, s.versions[version]
        if self.down.seeds(client, s.down):
            frames["seed"] = (self.seed % 2**64).to_bytes(8, "little")
        frames["model"] = self._frame(client, version, model, s)
        if self.algorithm.correction is not None:
            control = self.algorithm.correction.broadcast(s.control)
            frames["control"] = CONTROL.encode(control, stream(self.seed, "down", version))
        context = Context(
            round=round,
            clients_per_step=self.algorithm.pace.per_step or self.clients,
            step_norms=s.step_norms,
        )
        public = getattr(self.down, "public", None)
        held = None if public is None else public(s.down)
        return Parcel(version, round, frames, context, model, held, s.generation)

    def _frame(self, client: int, version: int, model: Vector, s: ServerState) -> bytes:
        key = (version,) if self.down.shared else (version, client)
        frame, s.down = self.down.send(client, model, version, s.down, stream(self.seed, "down", *key))
        return frame
