"""A link whose codecs work tensor by tensor."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from fedpace.link.protocol import Codec
from fedpace.vector import Layout


def bound(link: Any, layout: Layout) -> Any:
    """The same link with every codec in it bound to `layout`."""
    if isinstance(link, Codec):
        return link.bind(layout)
    if not is_dataclass(link) or isinstance(link, type):
        return link
    parts = {f.name: getattr(link, f.name) for f in fields(link) if f.name in ("codec", "link")}
    return replace(link, **{name: bound(part, layout) for name, part in parts.items()})
