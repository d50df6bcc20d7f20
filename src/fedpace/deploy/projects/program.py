"""client.py: what a machine trains. It is its owner's own code, imported from its owner's own disk."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fedpace.compute.protocol import Request
from fedpace.deploy.owner import Owner
from fedpace.errors import ConfigError, require
from fedpace.vector import Vector

if TYPE_CHECKING:
    from torch import nn

    from fedpace.tasks.own import OwnTask


class Program:
    """The names of a client.py.

    model() -> module      loss      data(client) -> train, or (train, test)
    optional:  server_data() -> test     metrics     accept() -> bool     steps(planned) -> int     rules = {name: rule}
    or, in place of model, loss and data:  task() -> any fedpace task, whose client i is this machine's data
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._names = vars(_imported(self.path))
        needed = ("task",) if "task" in self._names else ("model", "loss", "data")
        for name in needed:
            self._required(name)

    @property
    def rules(self) -> Mapping[str, Callable[..., Any]]:
        """Rules of one's own that a plan may name."""
        found = self._names.get("rules", {})
        require(isinstance(found, Mapping), f"{self.path.name}: rules", found, "a dict of names and rules")
        return {str(name): rule for name, rule in found.items()}

    def owner(self, expect: str | None = None) -> Owner:
        chosen = {name: self._names[name] for name in ("accept", "steps") if name in self._names}
        return Owner(**chosen, rules=self.rules, expect=expect)

    def server_task(self) -> Any:
        """The model, and `evaluate` where there is `server_data()`."""
        if "task" in self._names:
            return self._names["task"]()
        held_out = self._names.get("server_data")
        return SeededModel(self) if held_out is None else SeededTask(self, [held_out()], held_out())

    def local_task(self, client: int) -> tuple[Any, int]:
        """The model with this machine's data, and where that is in the task."""
        if "task" in self._names:
            return self._names["task"](), client
        train, test = _parted(self._names["data"](client))
        return SeededTask(self, [train], test), 0

    def whole_task(self, clients: int) -> Any:
        """The model with the data of all clients, where they are all here: for training again."""
        if "task" in self._names:
            return self._names["task"]()
        train = [_parted(self._names["data"](client))[0] for client in range(clients)]
        return SeededTask(self, train, None)

    def model(self, seed: int) -> nn.Module:
        """The module, its random beginning decided by the seed."""
        import torch
        from torch import nn

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made: nn.Module = self._names["model"]()
        require(
            isinstance(made, nn.Module),
            f"{self.path.name}: model()",
            type(made).__name__,
            "a torch.nn.Module",
        )
        return made

    def from_torch(self, clients: list[Any], test: Any) -> OwnTask:
        from fedpace.tasks import from_torch

        return from_torch(self.model(0), self._names["loss"], clients, test, self._names.get("metrics"))

    def _required(self, name: str) -> None:
        if name not in self._names:
            raise ConfigError(f"{self.path} must have {name}; `fedpace deploy new` writes one that does")


class SeededModel:
    """What a server without data has."""

    def __init__(self, program: Program) -> None:
        from fedpace.tasks.flat import FlatModule

        flat = FlatModule(program.model(0))
        self.name, self.layout, self._program = type(flat.module).__name__, flat.layout, program

    def initial(self, seed: int) -> Vector:
        from fedpace.tasks.flat import FlatModule

        return FlatModule(self._program.model(seed)).values()


class SeededTask(SeededModel):
    """A model with data; without test data nothing is evaluated."""

    def __init__(self, program: Program, clients: list[Any], test: Any) -> None:
        super().__init__(program)
        self._task = program.from_torch(clients, clients[0] if test is None else test)
        self.clients = len(clients)
        self.evaluate = None if test is None else self._task.evaluate

    def samples(self, client: int) -> float:
        return self._task.samples(client)

    def solve(self, request: Request) -> Vector:
        return self._task.solve(request)

    def train_until(self, request: Request, stopped: Callable[[], bool]) -> tuple[Vector, int]:
        return self._task.train_until(request, stopped)


def _parted(data: Any) -> tuple[Any, Any]:
    """(train, test): a pair of data sets is both, a pair of tensors is one data set."""
    import torch

    pair = isinstance(data, tuple | list) and len(data) == 2
    if pair and not any(isinstance(part, torch.Tensor) for part in data):
        return data[0], data[1]
    return data, None


def _imported(path: Path) -> ModuleType:
    require(path.is_file(), "client.py", str(path), "an existing file")
    spec = importlib.util.spec_from_file_location(f"fedpace_client_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that its classes can be found by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module
