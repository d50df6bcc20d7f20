"""Who comes in: decided by certificate, number, and how often it came lately. No sockets; `now` is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from fedpace.deploy.identity.peers import PeerCertificate
from fedpace.deploy.identity.revocation import RevocationList
from fedpace.deploy.websocket.chunks import ViolationError
from fedpace.deploy.websocket.limits import TransportLimits
from fedpace.deploy.websocket.patience import Occurrences


@dataclass
class _Record:
    """What happened to one identity within the last minute."""

    takeovers: Occurrences = field(default_factory=Occurrences)
    joins: Occurrences = field(default_factory=Occurrences)
    suspended_until: float = float("-inf")


class Gate:
    """Counts whom it refuses, by reason."""

    def __init__(
        self,
        clients: int,
        limits: TransportLimits,
        revocations: RevocationList | None,
        alarm: Callable[[str], None],
    ) -> None:
        self._clients, self._limits, self._alarm = clients, limits, alarm
        self.revocations = revocations
        self._records: dict[int, _Record] = {}  # at most one per client number
        self.rejected: Counter[str] = Counter()

    def check(self, certificate: PeerCertificate, wall_now: float) -> None:
        """ViolationError if the certificate is revoked or expired; on connecting and ever after."""
        if self.revocations is not None and certificate.fingerprint in self.revocations.revoked:
            raise ViolationError("revoked", "the certificate is revoked")
        if certificate.expires <= wall_now:
            raise ViolationError("expired", "the certificate has expired")

    def admit(self, client: int, now: float) -> None:
        """ViolationError if there is no such number, or it is suspended."""
        if not 0 <= client < self._clients:
            raise ViolationError("number", f"no client {client} among {self._clients}")
        if now < self._record(client).suspended_until:
            raise ViolationError("suspended", f"client {client} is suspended")

    def joins(self, client: int, now: float, *, takes_over: bool) -> None:
        """A new link, perhaps in place of a live one; ViolationError if that happens too often."""
        record = self._record(client)
        if takes_over and record.takeovers.count(now) > self._limits.takeovers_a_minute:
            self._suspend(client, record, now)
        if record.joins.count(now) > self._limits.joins_a_minute:
            raise ViolationError(
                "joins", f"client {client} came more than {self._limits.joins_a_minute} times"
            )

    def lift(self, client: int) -> None:
        """End a suspension."""
        self._records.pop(client, None)

    def suspended(self, now: float) -> list[int]:
        """Clients that are kept out for a while."""
        return [client for client, record in self._records.items() if now < record.suspended_until]

    def _record(self, client: int) -> _Record:
        return self._records.setdefault(client, _Record())

    def _suspend(self, client: int, record: _Record, now: float) -> None:
        record.suspended_until = now + self._limits.suspension_seconds
        self._alarm(
            f"client {client} is suspended for {self._limits.suspension_seconds:g} s: more than "
            f"{self._limits.takeovers_a_minute} connections a minute took over from one another. "
            "Two machines use its certificate; if one should not, revoke it"
        )
        raise ViolationError("suspended", f"client {client} is suspended: two processes use its certificate")
