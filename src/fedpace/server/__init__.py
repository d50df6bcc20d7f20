"""The sans-I/O server: messages, state, machine."""

from fedpace.server.machine import Server
from fedpace.server.messages import Announce, Ask, Deliver, Message, Parcel, Receipt, Step, Stop, Update
from fedpace.server.state import ServerState

__all__ = [
    "Announce",
    "Ask",
    "Deliver",
    "Message",
    "Parcel",
    "Receipt",
    "Server",
    "ServerState",
    "Step",
    "Stop",
    "Update",
]
