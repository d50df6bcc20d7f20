"""Which client may still report from which version.

A version is held from the moment the server orders a model to be sent until the update made from it has been
answered, or will not come. Models sent to one client are held by their order, one at a time: a newer order
overtakes an older one, except where clients work until they are interrupted: what they do when a model comes is still
wanted. A broadcast holds its version once for all clients, until the next one; a client that takes a broadcast model
holds it for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fedpace.server.versions import Versions


@dataclass(frozen=True, slots=True)
class Ordered:
    """A model on its way to one client, or in its hands."""

    version: int
    round: int


@dataclass(slots=True)
class Holds:
    """`taken`: further versions a client may report from, in order. `answered`: the newest each reported from."""

    orders: dict[int, Ordered] = field(default_factory=dict)  # client -> the last model sent to it alone
    broadcast: Ordered | None = None  # the newest
    taken: dict[int, list[int]] = field(default_factory=dict)
    answered: dict[int, int] = field(default_factory=dict)
    kept: list[int] = field(default_factory=list)  # broadcasts that the driver is still delivering

    def send(self, client: int, version: int, round: int, versions: Versions) -> None:
        """A model is ordered for one client; an older order is overtaken."""
        versions.hold(version)
        self.cancel(client, versions)
        self.orders[client] = Ordered(version, round)

    def send_beside(self, client: int, version: int, round: int, maximum: int, versions: Versions) -> None:
        """A model is ordered for a client that may still report from the one before, and from what it took."""
        older = self.orders.get(client)
        if older is not None:
            self.take(client, older.version, maximum, versions)
        self.send(client, version, round, versions)

    def cancel(self, client: int, versions: Versions) -> None:
        """The order for this client alone is void."""
        order = self.orders.pop(client, None)
        if order is not None:
            versions.release(order.version)

    def announce(self, version: int, round: int, versions: Versions) -> None:
        """A broadcast overtakes the one before."""
        versions.hold(version)
        if self.broadcast is not None:
            versions.release(self.broadcast.version)
        self.broadcast = Ordered(version, round)

    def keep(self, version: int, versions: Versions) -> None:
        versions.hold(version)
        self.kept.append(version)

    def release(self, version: int, versions: Versions) -> None:
        self.kept.remove(version)
        versions.release(version)

    def take(self, client: int, version: int, maximum: int, versions: Versions) -> None:
        """A client may report from this version too; beyond `maximum` models its oldest is given back."""
        versions.hold(version)
        mine = self.taken.get(client)
        if mine is None:
            self.taken[client] = [version]
            return
        mine.append(version)
        if len(mine) > maximum:
            versions.release(mine.pop(0))

    def has(self, client: int, version: int, reuse: bool) -> bool:
        """Whether this client may report from this version: it was sent it, took it, or could take it now."""
        order = self.orders.get(client)
        if order is not None and order.version == version:
            return True
        if version in self.taken.get(client, ()):
            return True
        newest = self.broadcast is not None and self.broadcast.version == version
        return newest and (reuse or self.answered.get(client, -1) < version)

    def answer(self, client: int, version: int, versions: Versions) -> None:
        """An update from this version was taken: the client has done with it, and with all older ones."""
        if version < 0:  # a whole model: the client continues with one of its own
            self.give_back(client, versions)
            return
        order, mine = self.orders.get(client), self.taken.get(client, [])
        if order is not None and order.version == version and version not in mine:
            self.give_back(client, versions)
            return
        done = [past for past in mine if past < version] + [version] * (version in mine)
        for past in done:
            mine.remove(past)
            versions.release(past)
        if not mine:
            self.taken.pop(client, None)
        self.answered[client] = max(version, self.answered.get(client, -1))

    def offers(self, client: int, version: int) -> bool:
        """Whether this client may take this version: it is, or was, broadcast and is still being delivered."""
        newest = self.broadcast is not None and self.broadcast.version == version
        return newest or version in self.kept or version in self.taken.get(client, ())

    def all(self) -> Iterator[int]:
        """Every reason to hold a version, one by one."""
        yield from (order.version for order in self.orders.values())
        yield from () if self.broadcast is None else (self.broadcast.version,)
        yield from (version for mine in self.taken.values() for version in mine)
        yield from self.kept

    def give_back(self, client: int, versions: Versions) -> None:
        """Nothing more will come from this client."""
        self.cancel(client, versions)
        self.forget_taken(client, versions)

    def forget_taken(self, client: int, versions: Versions) -> None:
        """This client's sessions are over; the model last sent to it may still be on its way."""
        for version in self.taken.pop(client, ()):
            versions.release(version)
