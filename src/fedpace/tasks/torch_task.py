"""Tasks that train a torch module: local training and evaluation on one flat vector."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from fedpace.client_spread import ClientSpread
from fedpace.compute.device import Device
from fedpace.compute.protocol import Request, describe
from fedpace.compute.threads import one_thread
from fedpace.local import SGD, Stopped, Torch
from fedpace.random import stream
from fedpace.tasks.autograd import AutogradSteps
from fedpace.tasks.batches import Positions, batches
from fedpace.tasks.cost import multiply_accumulates
from fedpace.tasks.evaluation import EVALUATION, measured
from fedpace.tasks.examples import Batch, Examples, ExamplesByClient
from fedpace.tasks.fast import Solver, solver
from fedpace.tasks.fast.lanes import WIDTH, Lanes, lane_of
from fedpace.tasks.fast.order import planned
from fedpace.tasks.flat import FlatModule
from fedpace.tasks.mislabelled import Mislabelled
from fedpace.tasks.objective import Objective
from fedpace.tasks.placed import Placed
from fedpace.tasks.statistics import (
    SAMPLES,
    Statistics,
    batch_norm_parameters,
    keeps_statistics,
    normalisers,
    put,
    renew,
    taken,
)
from fedpace.tasks.sums import channels_of, put_statistics, sums_over, tensors_with
from fedpace.vector import Layout, Vector, freeze

SHARED_CLIENTS = 2000  # up to here all data is made ready at once


class TorchTask:
    """A module, an objective, and the data of all clients.

    `solve` is a pure function of its request, given one thread: parameters, buffers and, when `stochastic`
    (dropout), torch's random generator are set from the request before the first step.
    """

    stochastic = own_module = False
    freezes = True
    client_tests: ExamplesByClient | None = None  # test data of the clients' own, where they have it

    def __init__(
        self,
        name: str,
        network: nn.Module,
        objective: Objective,
        sizes: Sequence[int],
        data: Callable[[int], Examples],
        test: Examples,
        device: Device | None = None,
    ):
        self.name, self.objective, self.test = name, objective, test
        self.device = device or Device()
        self.sizes, self._data = tuple(sizes), data
        self.clients = len(self.sizes)
        self._flat, self._placed = FlatModule(network, self.device), Placed(self.device)
        self._given = self._flat.values()
        self._estimated: tuple[Vector | None, list[Statistics]] = None, []  # of the last model evaluated

    def __getstate__(self) -> dict[str, object]:
        """Without what is made of the rest."""
        made = ("_solver", "_lanes", "_autograd", "_start")
        return {name: value for name, value in self.__dict__.items() if name not in made}

    @property
    def layout(self) -> Layout:
        return self._flat.layout

    @property
    def running_statistics(self) -> bool:
        return keeps_statistics(self._flat.module)

    @property
    def batch_norm(self) -> tuple[str, ...]:
        """The trained parameters of BatchNorm layers, by name."""
        return batch_norm_parameters(self._flat)

    @property
    def network(self) -> nn.Module:
        """The task's own module; its parameters are views of one flat vector and change with every session."""
        return self._flat.module

    def initial(self, seed: int) -> Vector:
        """The parameters the module came with, whatever the seed."""
        return self._start

    @cached_property
    def _start(self) -> Vector:
        """A view that cannot be written to, always the same one: a device that holds this model knows it again."""
        return freeze(self._given.view())

    def samples(self, client: int) -> float:
        return float(self.sizes[client])

    def client_data(self, client: int) -> Examples:
        """The training samples of one client."""
        return self._data(client)

    def _data_here(self, client: int) -> Examples:
        """The same, on the device."""
        return self._placed(client, lambda: self.client_data(client))

    def mislabelled(self, clients: Collection[int]) -> TorchTask:
        """The same task where these clients hold labels C - 1 - y."""
        changed = copy(self)  # without what is made of the data
        changed._data, changed._placed = Mislabelled(self._data, clients, self.clients), Placed(self.device)
        return changed

    def batches(self, request: Request) -> Iterator[Positions]:
        """Positions within the client's data, one array per local step."""
        return batches(request, self.sizes[request.data])

    @cached_property
    def multiply_accumulates(self) -> int:
        """Of the model, for one sample."""
        self._flat.reset(self._start)
        inputs, _ = self._test_here().take(np.arange(1))
        with self.device.seeded(0):
            return multiply_accumulates(lambda: self.objective.call(self.network.eval(), inputs))

    # ---------------------------------------------------------------- training

    @cached_property
    def _solver(self) -> Solver | None:
        if not self.device.is_plain:
            return None
        return solver(self._flat, self.objective, self.client_data(0), self._randomness)

    @property
    def solving(self) -> str:
        """How local steps are computed, in two words."""
        steps = self._autograd.name if self._solver is None else self._solver.name
        return steps + self.device.label

    @property
    def call_s(self) -> float:
        """Roughly what a local step costs beside its arithmetic."""
        return 5e-4 if self._solver is None else self._solver.call_s

    def solve(self, request: Request) -> Vector:
        """delta = y_end - y_start, the fastest way; equal to `reference` within rounding."""
        data = self.client_data(request.data)
        able = self._able(request, data)
        return self._stepped(request, None)[0] if able is None else able.solve(request, data)

    def train_until(self, request: Request, stopped: Stopped | None) -> tuple[Vector, int]:
        """(delta, steps taken), stopped between two steps: bit-identical to `solve` with that many steps."""
        data = self.client_data(request.data)
        able = self._able(request, data)
        if able is None:
            return self._stepped(request, stopped)
        return able.train_until(request, data, stopped)

    def _able(self, request: Request, data: Examples) -> Solver | None:
        """The solver, where it can do what is asked."""
        known = request.steps and isinstance(request.local, SGD) and not request.frozen
        able = known and self._solver is not None and self._solver.takes(data)
        return self._solver if able else None

    @cached_property
    def _lanes(self) -> Lanes | None:
        """Only where there is no solver, which is faster, and no loss to scale, which lanes do not do."""
        if self._solver is not None or self.device.scales_loss:
            return None
        self._flat.reset(self._start)
        lanes = Lanes(self._flat, self.objective)
        with self.device.session("a trial of lanes"):
            return lanes if lanes.works(self._data_here(0).take(np.arange(1))) else None

    @property
    def lanes(self) -> int:
        """How many clients can be one computation."""
        return 1 if self._lanes is None else WIDTH

    def lane(self, request: Request) -> int | None:
        """Requests with one local rule and different lanes may be computed together; None: each alone."""
        known = request.steps and isinstance(request.local, SGD) and not request.frozen
        able = known and self._lanes is not None
        return lane_of(request) if able else None

    def solve_together(self, requests: Sequence[Request]) -> list[Vector]:
        """delta of each request, as one computation; equal to `reference` within rounding."""
        assert self._lanes is not None
        self._flat.reset(self._start)
        plans = [planned(request, self.sizes[request.data]) for request in requests]
        with self.device.session(describe(requests)):
            samples = [
                self._taken(request, order[: ends[-1]])
                for request, (order, ends) in zip(requests, plans, strict=True)
            ]
            return self._lanes.solve(requests, samples, [ends for _, ends in plans])

    def _taken(self, request: Request, order: Positions) -> Batch:
        with self._randomness(request):
            return self._data_here(request.data).take(order)

    def prepare(self) -> None:
        """Make now what every session needs, so that workers forked from this process share it."""
        compiled = (0.0, 0.5) if self._solver is not None else ()  # plain steps, and those with momentum
        for momentum in compiled:
            self.warm_up(SGD(1e-3, steps=1, batch_size=1, momentum=momentum))
        if self.clients <= SHARED_CLIENTS:
            for client in range(self.clients):
                self.client_data(client)

    def warm_up(self, local: SGD) -> None:
        """Take one local step, so that no session waits for what is compiled or set up at the first."""
        first = nullcontext() if self._solver is None else self._solver.compiling()
        with first:
            self.solve(Request(0, 0, self._start, 0, local, 1, seed=0, data=0))

    def memory_size(self, local: Any) -> int:
        """Entries of the optimizer state that a client keeps from one session to the next."""
        kept = self._autograd.kept_state(local) if isinstance(local, Torch) else None
        return 0 if kept is None else kept.size

    def reference(self, request: Request) -> Vector:
        """delta = y_end - y_start by the reference loop: one batch, one gradient, one step."""
        delta, _ = self._stepped(request, None, replay=False)
        return delta

    def _stepped(self, request: Request, stopped: Stopped | None, replay: bool = True) -> tuple[Vector, int]:
        steps = self._autograd
        with self.device.session(describe([request])), self._randomness(request):
            return steps.train(request, lambda: self._data_here(request.data), stopped, replay)

    @cached_property
    def _autograd(self) -> AutogradSteps:
        if not self.own_module or not self.device.is_plain:
            return AutogradSteps(self._flat, self.objective)
        with self.device.seeded(0):
            self._flat.reset(self._start)
            return AutogradSteps(self._flat, self.objective, (self.client_data(0), self._given))

    @contextmanager
    def _randomness(self, request: Request) -> Iterator[None]:
        """Torch's generator, seeded by the request and put back afterwards."""
        if not self.stochastic:
            yield
            return
        rng = stream(request.seed, "batches", request.client, request.session, 1)
        with self.device.seeded(int(rng.integers(2**63))):
            yield

    # -------------------------------------------------------------- evaluation

    def evaluate(self, x: Vector) -> Mapping[str, float]:
        """Loss and metrics on the test data."""
        with self._evaluating():
            return self._measured(self._show(x), self._test_here())

    def other_tensors(self, x: Vector) -> dict[str, npt.NDArray[Any]]:
        """What the module with the parameters `x` holds beside them, by name, as it is evaluated."""
        x = np.asarray(x, self._flat.dtype)
        for_this, statistics = self._estimated
        if for_this is x and not x.flags.writeable:
            self._flat.reset(x)
            put(normalisers(self.network), statistics)
        else:
            with self._evaluating():
                self._set(x)
        return self._flat.others()

    @property
    def normalisers(self) -> dict[str, int]:
        """Layers with running statistics, by name, and how many channels they have."""
        return channels_of(self._flat)

    def sums(self, x: Vector, client: int) -> Vector | None:
        """What one client adds to the running statistics of `x` (`tasks.pooling`); None if it has too few samples."""
        if self.sizes[client] < 2:
            return None
        with self._evaluating():
            self._flat.reset(np.asarray(x, self._flat.dtype))
            inputs, _ = self._data_here(client).take(np.arange(min(SAMPLES, self.sizes[client])))
            return sums_over(self.network, self.objective, inputs, self.device)

    def evaluate_with(self, x: Vector, statistics: Vector) -> Mapping[str, float]:
        """Loss and metrics on the test data, with running statistics that were made elsewhere."""
        with self._evaluating():
            return self._measured(put_statistics(self._flat, x, statistics), self._test_here())

    def tensors_with(self, x: Vector, statistics: Vector | None) -> dict[str, npt.NDArray[Any]]:
        """`other_tensors` with those statistics; None: those that the module came with."""
        return tensors_with(self._flat, x, statistics)

    def training_loss(self, x: Vector) -> float:
        """The loss over the training data of all clients, every sample counting the same, in evaluation mode."""
        with self._evaluating():
            shown = self._show(x)
            losses = [self._on_own_data(client, shown)["loss"] for client in range(self.clients)]
        return float(np.average(losses, weights=self.sizes))

    def evaluate_clients(self, x: Vector) -> ClientSpread:
        """How well `x` serves each client: accuracy (or else loss) on its own test data, or else its training data."""
        with self._evaluating():
            shown = self._show(x)
            rows = [self._on_own_test(client, shown) for client in range(self.clients)]
        name = "accuracy" if "accuracy" in rows[0] else "loss"
        return ClientSpread(name, np.array([row[name] for row in rows]), higher_is_better=name == "accuracy")

    def evaluate_client(self, x: Vector, client: int) -> Mapping[str, float]:
        """Loss and metrics of a client's own model on its own test data, or else its training data.

        Running statistics come from its own data as well.
        """
        with self._evaluating():
            return self._on_own_test(client, self._show(x, client))

    def _on_own_data(self, client: int, shown: nn.Module) -> dict[str, float]:
        return self._measured(shown, self._data_here(client))

    def _on_own_test(self, client: int, shown: nn.Module) -> dict[str, float]:
        if self.client_tests is None:
            return self._on_own_data(client, shown)
        test = self.client_tests[client]
        return self._measured(shown, self._placed(("test", client), lambda: test))

    def _measured(self, shown: nn.Module, examples: Examples) -> dict[str, float]:
        return measured(shown, self.objective, examples, self.device)

    def _test_here(self) -> Examples:
        return self._placed("test", lambda: self.test)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """The same random numbers every time, and one thread for small networks.

        Those do not gain from a second one, and lose much where others use the cores.
        """
        with (
            nullcontext() if self._solver is None else one_thread(),
            self.device.seeded(0) if self.stochastic else nullcontext(),
            self.device.session(*EVALUATION),
            self.device.arithmetic(),
        ):
            yield

    def _show(self, x: Vector, client: int | None = None) -> nn.Module:
        """The network with the parameters `x` and the statistics that go with them, ready to be evaluated.

        These are of all clients, or of one where it has the two samples that a variance takes.
        """
        x = np.asarray(x, self._flat.dtype)
        if self._solver is not None and (shown := self._solver.network(x)) is not None:
            return shown
        if client is None or self.sizes[client] < 2:
            return self._set(x)
        self._flat.reset(x)
        if layers := normalisers(self.network):
            own = self._data_here(client)
            renew(self.network, layers, self.objective, [len(own)], lambda _: own)
        return self.network.eval()

    def _set(self, x: Vector) -> nn.Module:
        """The network itself, as `_show` describes it."""
        self._flat.reset(x)
        if layers := normalisers(self.network):
            renew(self.network, layers, self.objective, self.sizes, self._data_here)
            self._estimated = x, taken(layers)
        return self.network.eval()
