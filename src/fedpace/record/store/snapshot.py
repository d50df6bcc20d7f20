"""The whole state of a simulation as one value, taken between two events and put back into a fresh one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args, get_type_hints

from fedpace.aggregate.rows import SpilledRow
from fedpace.algorithm import Algorithm
from fedpace.client import ClientState
from fedpace.client.state import Memories
from fedpace.link.wire.frame import Phantom
from fedpace.record.run.reporter import Reported, reporter_of
from fedpace.record.store.tree import Adapter, Tree, TreeError, Typed, pack, unpack
from fedpace.server import Server, ServerState
from fedpace.sim.simulation import Simulation
from fedpace.sim.state import SimState
from fedpace.vector import Vector


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


@dataclass(slots=True)
class Beside:
    """A server's state, and what its driver knows beside it."""

    server: ServerState
    driver: Any


def take_server(server: Server, driver: Any, template: Any) -> Tree:
    """A server and the state of its driver, of which `template` is an example."""
    return pack(Beside(server.state, driver), Beside(_server_template(server), template), ADAPTERS)


def put_server(tree: Tree, server: Server, template: Any) -> Any:
    """Make a new server continue from there; the state of its driver. TreeError if it is one of another kind."""
    both: Beside = unpack(tree, Beside(_server_template(server), template), ADAPTERS)
    server.state = both.server
    return both.driver


def _template(simulation: Simulation) -> Snapshot:
    """What `init` builds, with examples where a state is still empty."""
    server = simulation.server
    return Snapshot(
        server=_server_template(server),
        clients={0: client_template(server.algorithm, server.model)},
        sim=SimState(),
        reported=Reported(),
    )


def client_template(algorithm: Algorithm, x: Vector) -> ClientState:
    """A client's state, with examples of what it may remember."""
    up, control = _uplink_template(algorithm, x), None
    if algorithm.correction is not None:
        control = _returned(algorithm.correction.after)
    held = _returned(algorithm.downlink.receive)
    return ClientState(up=up, held=held, control=control, pending=Memories(up, control))


def _server_template(server: Server) -> ServerState:
    return replace(server.state, up={0: _uplink_template(server.algorithm, server.model)})


def _uplink_template(algorithm: Algorithm, x: Vector) -> Any:
    first = algorithm.uplink.init(x.size, x.dtype)
    return _returned(algorithm.uplink.send) if first is None else first


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
