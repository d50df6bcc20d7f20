"""The sans-I/O server: messages, state, machine."""

from fedpace.pace.protocol import Broadcast, Interrupt, Order, Poll, Send
from fedpace.server.machine import Server
from fedpace.server.messages import Answer, Parcel, Receipt, Skipped, Step, Update
from fedpace.server.state import ServerState

__all__ = [
    "Answer",
    "Broadcast",
    "Interrupt",
    "Order",
    "Parcel",
    "Poll",
    "Receipt",
    "Send",
    "Server",
    "ServerState",
    "Skipped",
    "Step",
    "Update",
]
