"""Answers whose modules take long to import, imported when first asked for: the list of runs does not wait for them."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response


def lazily(module: str, name: str) -> Callable[[Request], Response]:
    """The function `name` of a module of this package."""

    def answered(request: Request) -> Response:
        function = getattr(importlib.import_module(f"fedpace.dashboard.{module}"), name)
        found: Response = function(request)
        return found

    return answered
