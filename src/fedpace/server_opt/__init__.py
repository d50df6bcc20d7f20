"""Stop 4: one update -> the next model."""

from fedpace.server_opt.momentum import Momentum
from fedpace.server_opt.protocol import ServerOpt

__all__ = ["Momentum", "ServerOpt"]
