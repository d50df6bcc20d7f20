"""Training data of clients that lie about their labels."""

from __future__ import annotations

from collections.abc import Callable, Collection

from fedpace.errors import ConfigError
from fedpace.tasks.examples import Examples, Tensors


class Mislabelled:
    """The data of all clients, with labels C - 1 - y at some of them."""

    def __init__(self, data: Callable[[int], Examples], clients: Collection[int], of: int) -> None:
        self.data, self.clients = data, frozenset(clients)
        self.classes = 1 + max(int(_labelled(data(client)).targets.max()) for client in range(of))
        self._flipped: dict[
            int, Tensors
        ] = {}  # the same object every time: solvers know data by their identity

    def __call__(self, client: int) -> Examples:
        examples = self.data(client)
        if client not in self.clients:
            return examples
        if client not in self._flipped:
            labelled = _labelled(examples)
            self._flipped[client] = Tensors(labelled.inputs, self.classes - 1 - labelled.targets)
        return self._flipped[client]


def _labelled(examples: Examples) -> Tensors:
    if (
        not isinstance(examples, Tensors)
        or examples.targets.ndim != 1
        or examples.targets.is_floating_point()
    ):
        raise ConfigError("label_flip must have a task with one class label per sample; got one without")
    return examples
