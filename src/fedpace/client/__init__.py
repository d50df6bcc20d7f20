"""The sans-I/O client."""

from fedpace.client.machine import Client, ClientConfig
from fedpace.client.state import ClientState, Delivery, Session, Times

__all__ = ["Client", "ClientConfig", "ClientState", "Delivery", "Session", "Times"]
