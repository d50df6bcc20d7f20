"""GET /metrics: the newest status as Prometheus text, for whoever is allowed to reach the port. Nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable

from fedpace.deploy.accepting import stop_accepting
from fedpace.deploy.serving import Serving
from fedpace.deploy.websocket.addresses import is_loopback
from fedpace.errors import ConfigError
from fedpace.record.fleet.prometheus import CONTENT_TYPE, rendered
from fedpace.record.fleet.status import FleetStatus

LONGEST_REQUEST = 8 << 10
REQUEST_S = 5.0  # until a request is there, and again until its answer is taken
MOST_AT_ONCE = 16
END = b"\r\n\r\n"
_PHRASES = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}


class MetricsPage:
    """Listens while a server runs. `opened` is told the address once it does."""

    def __init__(
        self,
        host: str,
        port: int,
        opened: Callable[[str], None] = lambda address: None,
        request_s: float = REQUEST_S,
    ) -> None:
        self.host, self.port, self.newest = host, port, ""
        self._opened, self._request_s = opened, request_s
        self._open = 0

    def take(self, status: FleetStatus) -> None:
        """The newest status."""
        self.newest = rendered([status])

    @contextlib.asynccontextmanager
    async def beside(self, serving: Serving) -> AsyncIterator[None]:
        try:
            listener = await asyncio.start_server(self._answer, self.host, self.port, limit=LONGEST_REQUEST)
        except OSError as error:
            where = f"{self.host}:{self.port}"
            raise ConfigError(
                f"--metrics must be an address that is free here; got {where} ({error})"
            ) from None
        self.port = listener.sockets[0].getsockname()[1]
        shown = f"[{self.host}]" if ":" in self.host else self.host
        self._opened(f"http://{shown}:{self.port}/metrics")
        try:
            yield
        finally:
            await stop_accepting(listener.sockets)
            listener.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MOST_AT_ONCE:
                async with asyncio.timeout(self._request_s):
                    request = await reader.readuntil(END)
                async with asyncio.timeout(self._request_s):
                    writer.write(self._response(request))
                    await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # too slow, too long, or gone
        finally:
            self._open -= 1
            writer.close()

    def _response(self, request: bytes) -> bytes:
        line, *lines = request.removesuffix(END).decode("latin-1").split("\r\n")
        hosts = [
            value.strip()
            for name, _, value in (each.partition(":") for each in lines)
            if name.lower() == "host"
        ]
        words = line.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1.") or len(hosts) != 1:
            return _http(400, "this is no request")
        if not self._is_here(hosts[0]):
            return _http(403, "this is not the host that was meant")
        if words[1].partition("?")[0] != "/metrics":
            return _http(404, "only /metrics is here")
        if words[0] not in ("GET", "HEAD"):
            return _http(405, "only GET is answered")
        return _http(200, self.newest, CONTENT_TYPE, with_body=words[0] == "GET")

    def _is_here(self, host: str) -> bool:
        """Whether a request means this server: a page of another site that had its name point here does not."""
        name = _name_of(host)
        if is_loopback(name) or name == self.host:
            return True
        return not is_loopback(self.host) and (_is_address(name) or name == socket.gethostname())


def _name_of(host: str) -> str:
    """Of `name`, `name:port`, `[address]:port`."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return False


def _http(code: int, text: str, kind: str = "text/plain; charset=utf-8", *, with_body: bool = True) -> bytes:
    body = text.encode() if code == 200 else f"{text}\n".encode()
    head = [
        f"HTTP/1.1 {code} {_PHRASES[code]}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    return "\r\n".join(head).encode() + END + (body if with_body else b"")
