"""Orders that take time: what a deployment's polls, interruptions and requests for a model do over its links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fedpace.client import Client, Delivery
from fedpace.server import Interrupt, Poll
from fedpace.sim.population import Devices
from fedpace.sim.simulation import Simulation
from fedpace.sim.timeline import Phase


def simulation_for(devices: Devices) -> type[Simulation]:
    """The one in which orders take as long as the devices say."""
    return DelayedSimulation if devices.population.delayed_orders else Simulation


class DelayedSimulation(Simulation):
    """A poll or an interruption reaches its client after `down_s`, a request for a model the server after `up_s`.

    An interrupted client finishes the local step under way. Where it averages (QuAFL), the interruption brings the
    model along, whose bytes take their time too if they are the same for all.
    """

    def _handlers(self) -> Sequence[Callable[[int, Any], None]]:
        return (*super()._handlers(), self._ordered)

    def _poll(self, order: Poll) -> None:
        self._under_way(order.client, 0, None)

    def _interrupt(self, order: Interrupt) -> None:
        brings = self.config.averaging is not None and self.config.shared
        size = self.server.preview(order.version, order.round).size_bytes if brings else 0
        self._under_way(order.client, size, Delivery(order.version, order.round))

    def _under_way(self, number: int, size_bytes: int, model: Delivery | None) -> None:
        when = self.now + self.devices.download_s(number, size_bytes)
        self.state.line.at(when, Phase.ORDER, number, model)

    def _ordered(self, number: int, model: Delivery | None) -> None:
        """An order reaches its client; `model` is the one that an interruption names, None: it is a poll."""
        sent_s = self.now - self.devices.download_s(number, 0)
        if not self.server.is_present(number) or sent_s < self.state.broadcasts.back_s.get(number, 0.0):
            return  # it was away meanwhile, and is waited for no longer
        until = self._heeded_s(self._client(number), model)
        if until > self.now:
            self.state.line.at(until, Phase.ORDER, number, model)
        elif model is None:
            super()._poll(Poll(number))
        else:
            super()._interrupt(Interrupt(number, model.version, model.round))

    def _heeded_s(self, client: Client, model: Delivery | None) -> float:
        """Not before the model that was sent first has come; an interruption, not before the end of a local step."""
        if client.state.running is None:
            return self.now
        return max(self.now, client.state.times.began_s) if model is None else client.step_ends_s(self.now)

    def _look(self, number: int, answered: bool = False) -> None:
        """Where the server polls, a client asks for its next model; one that rested, once it has been answered."""
        if not self.config.polled:
            super()._look(number, answered)
            return
        answer_s = self.devices.download_s(number, 0) if answered else 0.0
        when = self.now + answer_s + self.devices.upload_s(number, self._bytes_ahead(number))
        self.state.line.at(when, Phase.START, number)

    def _bytes_ahead(self, number: int) -> int:
        """Of the update that is sent before the request."""
        upload = self._client(number).state.upload
        return 0 if upload is None else upload.size_bytes
