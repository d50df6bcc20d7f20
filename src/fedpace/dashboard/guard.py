"""The outermost layer: refuses what `access` refuses, and puts the same headers on every answer."""

from __future__ import annotations

import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedpace.dashboard.access import Access, RefusedRequest
from fedpace.dashboard.shipped import shipped

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors {frames}"
)
_NOTEBOOKS = "'self' http://localhost:* http://127.0.0.1:*"  # where a notebook on this machine shows the page


class Guard:
    """ASGI: asks `access` about every request before it is routed."""

    def __init__(self, app: ASGIApp, access: Access, *, framed: bool) -> None:
        self._app, self._access = app, access
        policy = _POLICY.format(frames=_NOTEBOOKS if framed else "'none'")
        self._headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, self._with_headers(send))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._access.refused(scope["method"], scope["path"], scope["headers"])
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await _refuse(refusal, send, page=scope["path"] == "/" and refusal.status == 401)

    def _with_headers(self, send: Send) -> Send:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                own = [pair for pair in self._headers if pair[0] not in given]
                cache = [] if b"cache-control" in given else [(b"cache-control", b"no-store")]
                message = {**message, "headers": [*message["headers"], *own, *cache]}
            await send(message)

        return sent


async def _refuse(refusal: RefusedRequest, send: Send, *, page: bool) -> None:
    """As JSON; whoever opens the page itself gets one that takes the token from the address."""
    body = shipped("enter.html") if page else json.dumps({"error": refusal.reason}).encode()
    kind = b"text/html; charset=utf-8" if page else b"application/json"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    if refusal.status == 401 and not page:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
