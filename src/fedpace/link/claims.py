"""What a codec claims about itself, as far as a link has to know it."""

from __future__ import annotations

from fedpace.errors import ConfigError
from fedpace.link.protocol import Codec


def require_contractive(codec: Codec, what: str) -> None:
    """Refuse a codec that says it does not contract: what it got wrong would pile up."""
    claim = getattr(codec, "contraction", None)
    if claim is not None and claim(sum(getattr(codec, "groups", ())) or 2) is None:
        raise ConfigError(f"{what} must contract; got {codec!r}, which is unbiased instead")
