"""Who may ask for what. Every request is judged here before anything else looks at it.

Host is checked always, so that no other name can be made to point here (DNS rebinding). Whatever is not GET or HEAD
needs the token in its Authorization header, which no other site can send, and no foreign Origin. Reading needs no token
on loopback unless the page is private; elsewhere it needs the token, or the cookie that was given for it. The cookie is
derived from the token, reads only, and is worth nothing to an action.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

READS = ("GET", "HEAD")
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{1,500}={0,10}")  # as RFC 6750 has it
TOKENS = "letters, digits and any of - . _ ~ + /"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]{2,45}\]|[a-z0-9_.-]{1,253})(?::[0-9]{1,5})?")
_DATA = ("/api/", "/metrics")
_PUBLIC = "/static/"  # the page's own files: the same for everybody, without a word of any run

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """Why a request is not answered."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one server."""

    token: str = field(repr=False)
    hosts: frozenset[str] = LOOPBACK
    any_address: bool = False  # also every Host that is a number: nobody can point a name there
    private: bool = False  # reading needs the token, too

    def refused(self, method: str, path: str, headers: Headers) -> RefusedRequest | None:
        """None: the request may be answered."""
        given = _by_name(headers)
        if not self._is_ours(given.get("host", ())):
            return RefusedRequest(400, "Host must be the name of this server")
        if method not in READS:
            return self._refused_action(given)
        if path.startswith(_DATA) and _is_from_elsewhere(given):
            return RefusedRequest(403, "what runs say is not for other sites")
        if not self.private or path.startswith(_PUBLIC) or self._has_token(given) or self._has_cookie(given):
            return None
        return RefusedRequest(401, "reading needs the token: open the address that fedpace ui printed")

    @property
    def cookie(self) -> tuple[str, str]:
        """Its name and its value. Browsers do not tell ports apart, so each server has a name of its own."""
        key = self.token.encode()
        name = hmac.digest(key, b"fedpace ui: name of the cookie", sha256).hex()[:8]
        return f"fedpace-{name}", hmac.digest(key, b"fedpace ui: cookie that reads", sha256).hex()

    def _refused_action(self, given: Mapping[str, Sequence[str]]) -> RefusedRequest | None:
        if not self._has_token(given):
            return RefusedRequest(401, "Authorization must be Bearer and the token")
        own = f"http://{given['host'][0]}"
        foreign = any(origin.lower() != own.lower() for origin in given.get("origin", ()))
        if foreign or _is_from_elsewhere(given):
            return RefusedRequest(403, "Origin must be this server's")
        return None

    def _is_ours(self, hosts: Sequence[str]) -> bool:
        match = _HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
        return match is not None and (
            match["name"] in self.hosts or self.any_address and _address(match["name"]) is not None
        )

    def _has_token(self, given: Mapping[str, Sequence[str]]) -> bool:
        known = given.get("authorization", ())
        return len(known) == 1 and _same(known[0], f"Bearer {self.token}")

    def _has_cookie(self, given: Mapping[str, Sequence[str]]) -> bool:
        pairs = (part.strip() for each in given.get("cookie", ()) for part in each.split(";"))
        return any(_same(pair, "=".join(self.cookie)) for pair in pairs)


def access(host: str, token: str, *, private: bool) -> Access:
    """The rules for a server that listens at `host`."""
    if is_loopback(host):
        return Access(token, LOOPBACK | {_as_host(host)}, private=private)
    names = {_as_host(host), socket.gethostname().lower(), *LOOPBACK}
    return Access(token, frozenset(names), any_address=is_everywhere(host), private=True)


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can ask."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def is_everywhere(host: str) -> bool:
    """Whether it stands for all addresses of this machine."""
    address = _address(host)
    return address is not None and address.is_unspecified


def _as_host(host: str) -> str:
    """As the header has it."""
    return f"[{host.strip('[]').lower()}]" if ":" in host else host.lower()


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _by_name(headers: Headers) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip())
    return found


def _is_from_elsewhere(given: Mapping[str, Sequence[str]]) -> bool:
    """Whether a browser says that the page of another site asks."""
    return any(site not in ("same-origin", "none") for site in given.get("sec-fetch-site", ()))


def _same(given: str, known: str) -> bool:
    """In a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode(), known.encode())
