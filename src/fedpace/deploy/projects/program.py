"""client.py: what a machine trains. It is its owner's own code, imported from its owner's own disk."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fedpace.deploy.owner import Owner
from fedpace.errors import ConfigError, require

if TYPE_CHECKING:
    from fedpace.tasks.seeded import SeededTask


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
        missing = [name for name in needed if name not in self._names]
        if missing:
            raise ConfigError(
                f"{self.path} must have {missing[0]}; `fedpace deploy new` writes one that does"
            )

    @property
    def rules(self) -> Mapping[str, Callable[..., Any]]:
        """Rules of one's own that a plan may name."""
        found = self._names.get("rules", {})
        require(isinstance(found, Mapping), f"{self.path.name}: rules", found, "a dict of names and rules")
        return {str(name): rule for name, rule in found.items()}

    @property
    def decides(self) -> bool:
        """Whether it has a say in anything but model and data."""
        return not {"accept", "steps", "rules"}.isdisjoint(self._names)

    def owner(self, expect: str | None = None) -> Owner:
        chosen = {name: self._names[name] for name in ("accept", "steps") if name in self._names}
        return Owner(**chosen, rules=self.rules, expect=expect)

    def server_task(self) -> Any:
        """The model, and `evaluate` where there is `server_data()`."""
        if "task" in self._names:
            return self._names["task"]()
        from fedpace.tasks.seeded import SeededModel

        if "server_data" not in self._names:
            return SeededModel(self._names["model"])
        held_out = self._names["server_data"]()
        return self._made([held_out], held_out)

    def local_task(self, client: int) -> tuple[Any, int]:
        """The model with this machine's data, and where that is in the task."""
        if "task" in self._names:
            return self._names["task"](), client
        from fedpace.tasks.seeded import parted

        train, test = parted(self._names["data"](client))
        return self._made([train], test), 0

    def whole_task(self, clients: int) -> Any:
        """The model with the data of all clients, where they are all here: for training again."""
        if "task" in self._names:
            return self._names["task"]()
        from fedpace.tasks.seeded import parted

        return self._made([parted(self._names["data"](client))[0] for client in range(clients)])

    def _made(self, clients: list[Any], test: Any = None) -> SeededTask:
        from fedpace.tasks.seeded import SeededTask

        names = self._names
        return SeededTask(names["model"], names["loss"], clients, test, names.get("metrics"))


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
