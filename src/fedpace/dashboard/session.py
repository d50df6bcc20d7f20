"""The token of the printed address, exchanged for a cookie that reads."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response


def opened(request: Request) -> Response:
    """Whoever comes this far has the token."""
    name, value = request.app.state.access.cookie
    answer = Response(status_code=204)
    answer.set_cookie(name, value, httponly=True, samesite="strict", path="/")
    return answer
