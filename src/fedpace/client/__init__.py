"""The sans-I/O client."""

from fedpace.client.machine import Client, Kit
from fedpace.client.state import ClientState, Delivery, Session, Times

__all__ = ["Client", "ClientState", "Delivery", "Kit", "Session", "Times"]
