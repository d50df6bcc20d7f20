"""A codec alone is a link too."""

from __future__ import annotations

from fedpace.errors import ConfigError
from fedpace.link.downlinks.full import Full
from fedpace.link.protocol import Codec, Downlink, Uplink
from fedpace.link.uplinks.plain import Plain


def as_uplink(link: Codec | Uplink | None) -> Uplink:
    """The link itself, or the plain link of a codec; None is the vector as it is."""
    if link is None:
        return Plain()
    if isinstance(link, Codec):
        return Plain(link)
    if isinstance(link, Uplink) and not hasattr(link, "publish"):
        return link
    raise ConfigError(f"an uplink must be a codec or an Uplink; got {link!r}")


def as_downlink(link: Codec | Downlink | None) -> Downlink:
    """The link itself, or the whole model through a codec; None is the model as it is."""
    if link is None:
        return Full()
    if isinstance(link, Codec):
        return Full(link)
    if isinstance(link, Downlink):
        return link
    raise ConfigError(f"a downlink must be a codec or a Downlink; got {link!r}")
