"""How many updates one server step may wait for."""

from __future__ import annotations

from fedpace.errors import require

MOST_PER_CLIENT = (
    1000  # of one client in one step; a run that asks for more seems to hang, or has no memory left
)


def require_attainable(count: int, what: str, clients: int) -> None:
    """Refuse more updates or draws than clients that may each count several times will ever bring."""
    allowed = f"<= {MOST_PER_CLIENT:,} times the number of clients ({clients})"
    require(count <= MOST_PER_CLIENT * clients, what, count, allowed)
