"""The whole state of a simulation as one value, taken between two events and put back into a fresh one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args, get_type_hints

from fedpace.aggregate.rows import SpilledRow
from fedpace.client import ClientState, Delivery
from fedpace.client.state import Memories
from fedpace.link.wire.frame import Phantom
from fedpace.record.run.reporter import Reported, reporter_of
from fedpace.record.store.tree import Adapter, Tree, TreeError, Typed, pack, unpack
from fedpace.server import ServerState
from fedpace.sim.simulation import SimState, Simulation
from fedpace.sim.timeline import Phase, Timeline
from fedpace.vector import Vector

# What a handler is given, by phase; solves under way are sessions of their clients, never results.
EVENTS = list[tuple[float, Phase, int, int, bool | int | float | Delivery | None]]


@dataclass(slots=True)
class Snapshot:
    """All that changes while a run runs, but its history."""

    server: ServerState
    clients: dict[int, ClientState]
    sim: SimState
    reported: Reported


def take(simulation: Simulation) -> Tree:
    """The state as it is, for a caller that stands between two events."""
    clients = {number: client.state for number, client in simulation.clients.items()}
    whole = Snapshot(simulation.server.state, clients, simulation.state, reporter_of(simulation).state)
    return pack(whole, _template(simulation), ADAPTERS)


def put(tree: Tree, simulation: Simulation) -> None:
    """Make a simulation that has not begun go on from there; TreeError if it is one of another kind."""
    whole: Snapshot = unpack(tree, _template(simulation), ADAPTERS)
    try:
        simulation.server.state = whole.server
        reporter_of(simulation).state = whole.reported
        simulation.restore(whole.sim, whole.clients)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise TreeError(f"its content does not fit this run ({error})") from error


def _template(simulation: Simulation) -> Snapshot:
    """What `init` builds, with examples where a state is still empty."""
    server = simulation.server
    x = server.model
    first = server.up.init(x.size, x.dtype)
    up = _returned(server.up.send) if first is None else first
    control = None
    if server.algorithm.correction is not None:
        control = _returned(server.algorithm.correction.after)
    client = ClientState(
        up=up, held=_returned(server.down.receive), control=control, pending=Memories(up, control)
    )
    events: Any = Typed(EVENTS)
    return Snapshot(
        server=replace(server.state, up={0: up}),
        clients={0: client},
        sim=SimState(line=Timeline(heap=events)),
        reported=Reported(),
    )


def _returned(method: Any) -> Typed:
    """The type of the state in a method's `(output, state)`, as its annotation says."""
    result = get_type_hints(method).get("return", Any)
    return Typed((*get_args(result), Any, Any)[1])


ADAPTERS = (
    Adapter(
        SpilledRow,
        lambda row: (row.folder, row.v),
        lambda plain, _: SpilledRow.written(*plain),
        tuple[str, Vector],
    ),
    Adapter(
        Phantom,
        lambda frame: (bytes(frame), frame.value),
        lambda plain, _: Phantom(*plain),
        tuple[bytes, Vector],
    ),
)
