"""Where a server listens and a client connects to."""

from __future__ import annotations

import ipaddress

from fedpace.errors import require

PATH = "/fedpace/1"


def is_loopback(host: str) -> bool:
    """Whether the host is this machine and cannot be another one."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_loopback(host: str) -> None:
    allowed = "on this machine (127.0.0.1, ::1, localhost) without certificates"
    require(is_loopback(host), "the address", host, allowed)


def uri(host: str, port: int, *, secure: bool) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{'wss' if secure else 'ws'}://{shown}:{port}{PATH}"
