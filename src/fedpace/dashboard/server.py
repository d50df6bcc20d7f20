"""The server from its options to its end."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from fedpace.dashboard.access import TOKEN, TOKENS, access, is_everywhere, is_loopback
from fedpace.dashboard.app import application, hub_of
from fedpace.dashboard.events import Hub
from fedpace.dashboard.guard import Guard
from fedpace.errors import ConfigError
from fedpace.record.store.store import Store
from fedpace.untrusted import read_regular

BACKLOG = 128


@dataclass(frozen=True, slots=True)
class PageOptions:
    """What `fedpace ui` is told."""

    host: str = "127.0.0.1"
    port: int = 8421
    token: str | None = None
    private: bool = False
    experiments: Path | None = None


def serve(options: PageOptions) -> None:
    """Serve the page until a signal comes; the address is printed once it answers."""
    token = chosen_token(options.token)
    rules = access(options.host, token, private=options.private)
    app = application(Store(), rules, options.experiments)
    listening = _listening(options.host, options.port)
    guarded: ASGIApp = Guard(app, rules, framed=is_loopback(options.host))
    config = uvicorn.Config(
        guarded,
        http="h11",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    said = greeting(options, token, listening.getsockname()[1], private=rules.private)
    server = _Announced(config, said, hub_of(app))
    server.run(sockets=[listening])


class _Announced(uvicorn.Server):
    """Says where it is once it answers, and ends the streams before it waits for the others."""

    def __init__(self, config: uvicorn.Config, said: str, hub: Hub) -> None:
        super().__init__(config)
        self._said, self._hub = said, hub

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self._said, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._hub.close()
        await super().shutdown(sockets)


def greeting(options: PageOptions, token: str, port: int, *, private: bool) -> str:
    """The address; with the token in its fragment where reading needs it, else beside it if nobody knows it yet."""
    host = socket.gethostname() if is_everywhere(options.host) else options.host
    address = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
    if private:
        return f"{address}#token={token}"
    if options.token is None:
        return f"{address}\n  to change runs from the page: {address}#token={token}"
    return address


def chosen_token(given: str | None) -> str:
    """The given one, or a new one that nobody can guess."""
    token = secrets.token_urlsafe(24) if given is None else given
    if not TOKEN.fullmatch(token):  # which is not repeated in an error
        raise ConfigError(
            f"the token must have {TOKENS}, and nothing else; got {len(token)} letters, others among them"
        )
    return token


def token_in(path: str) -> str:
    """The token in a file, without the end of its line."""
    try:
        return read_regular(path, 1000).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(f"--token-file must be a file with a token ({reason}); got {path!r}") from None


def _listening(host: str, port: int) -> socket.socket:
    """The socket, bound before anything is printed; ConfigError if that place is taken."""
    try:
        family, kind, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(BACKLOG)
    except OSError as error:
        where = f"{host}:{port}"
        raise ConfigError(
            f"--host and --port must be free to listen at ({error.strerror}); got {where}"
        ) from None
    return made
