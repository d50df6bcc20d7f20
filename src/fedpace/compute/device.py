"""The device that local training runs on. Whatever crosses between it and main memory crosses here.

Transfers, pinned memory, streams, `.numpy()` and `.item()` are in this module and nowhere else on the way of a
session, so that a test can put another one in its place and count. `Device` is main memory itself, where tensors are
numpy's own memory and nothing is copied; `Accelerator` is a GPU.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedpace.compute.held_models import HeldModels
from fedpace.compute.sharing import name_here, processes_on
from fedpace.errors import ConfigError, OutOfMemory, unknown
from fedpace.kernels import difference
from fedpace.vector import Vector

PRECISIONS: dict[str, torch.dtype | None] = {
    "float32": None,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
DATA_SHARE = 0.5  # of a device's free memory, divided by its processes, for training and test data
MODEL_SHARE = 0.25  # of the same, for model versions; two are held however large they are
LOWER = "batch_size, --workers or the model's size"  # what the memory of local training depends on


class Device:
    """Main memory, and the processor beside it."""

    def __init__(self, name: str = "cpu", precision: str = "float32") -> None:
        self.name, self.precision = name, precision
        self.torch = torch.device(name)
        self._lower = PRECISIONS[precision]

    @property
    def type(self) -> str:
        return self.torch.type

    @property
    def is_host(self) -> bool:
        """Whether its memory is main memory."""
        return True

    @property
    def is_plain(self) -> bool:
        """Main memory and the parameters' own precision: compiled steps can do without torch."""
        return self.is_host and self._lower is None

    @property
    def text(self) -> str:
        """What differs from the default, for a task's `repr`: of the device the type, which decides the bits."""
        where = "" if self.is_host else f", device={self.type!r}"
        return where if self._lower is None else f"{where}, precision={self.precision!r}"

    @property
    def label(self) -> str:
        """For the record of a run; nothing for the default."""
        where = "" if self.is_host else f" on {self.type}"
        return where if self._lower is None else f"{where}, {self.precision}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (type(self), self.name, self.precision)

    # ---------------------------------------------------------------- there and back

    def empty(self, size: int, dtype: torch.dtype) -> Tensor:
        return torch.empty(size, dtype=dtype, device=self.torch)

    def place(self, tensor: Tensor) -> Tensor:
        """A tensor, on the device."""
        return tensor if tensor.is_cpu else tensor.cpu()

    def upload(self, array: npt.NDArray[Any]) -> Tensor:
        """An array, on the device."""
        return torch.from_numpy(array)

    def download(self, tensor: Tensor) -> npt.NDArray[Any]:
        """A tensor as an array; on the host its own memory."""
        return tensor.numpy()

    def number(self, tensor: Tensor) -> float:
        """One number: waits until the device has got there."""
        return float(tensor)

    def numbers(self, values: Sequence[Any]) -> list[float]:
        """Numbers, some of them tensors: waits once."""
        return [float(value) for value in values]

    def to_host(self, batch: Any) -> Any:
        """Tensors in nested tuples, lists and dicts, in main memory."""
        return batch

    def check(self, loss: Tensor, parameters: Tensor) -> Tensor:
        """The loss, if it is where the parameters are: torch takes one number from anywhere, and copies every time."""
        if loss.device != parameters.device:
            raise ConfigError(
                f"the loss must be on {parameters.device}, as the parameters are; got {loss.device}"
            )
        return loss

    def model(self, x: Vector) -> Tensor:
        """The model `x`, read-only; copied once however many sessions begin from it."""
        return torch.from_numpy(np.array(x))

    def load(self, x: Vector, into: Tensor) -> None:
        """into = x"""
        into.numpy()[:] = x

    def moved(self, y: Tensor, start: Vector) -> Vector:
        """y - start, in main memory."""
        return difference(y.numpy(), start)

    def send(self, batch: Any) -> Any:
        """Begin to bring a batch here; `received` has it."""
        return batch

    def received(self, sent: Any) -> Any:
        return sent

    def take(self, tensor: Tensor, index: Tensor) -> Tensor:
        """Rows of a tensor. torch would accept an index from elsewhere, and copy it every time."""
        if tensor.device != index.device:
            raise AssertionError(f"an index on {index.device} into a tensor on {tensor.device}")
        return tensor.index_select(0, index)

    # ---------------------------------------------------------------- circumstances

    @property
    def data_bytes(self) -> int:
        """How much data may stay on the device; on the host it is there already."""
        return 0

    def arithmetic(self) -> AbstractContextManager[Any]:
        """The precision of one forward pass: weights change between two, so their copies must not outlive it."""
        return nullcontext() if self._lower is None else torch.autocast(self.type, self._lower)

    @property
    def scales_loss(self) -> bool:
        """Whether gradients would be lost below the smallest number of this precision."""
        return self._lower is torch.float16

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """torch's random numbers from `seed`, and as they were afterwards."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield

    @contextmanager
    def session(self, what: str, lower: str = LOWER) -> Iterator[None]:
        """Around the work for one session; memory that runs out is an error that says what to lower."""
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            raise OutOfMemory(self._advice(what, lower)) from error

    def _advice(self, what: str, lower: str) -> str:
        other = "" if self._lower is not None else ", or ask for precision bf16"
        return f"{self.name} is out of memory in {what}: lower {lower}{other}"


@dataclass(frozen=True, slots=True, eq=False)
class OnItsWay:
    """A batch whose copy is queued, and the event after it."""

    batch: Any
    complete: Any


class Accelerator(Device):
    """A GPU: pinned buffers on the way there and back, copies beside the computation, deterministic algorithms."""

    def __init__(self, name: str, precision: str = "float32") -> None:
        super().__init__(name, precision)
        self._models = HeldModels()
        self._model_bytes: int | None = None  # room for them, once it is known
        self._buffer: Tensor | None = None
        self._copies: Any = None

    @property
    def is_host(self) -> bool:
        return False

    def place(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.torch)

    def upload(self, array: npt.NDArray[Any]) -> Tensor:
        own = np.ascontiguousarray(array)
        writeable = own if own.flags.writeable else own.copy()  # torch warns of others
        return self.place(torch.from_numpy(writeable))

    def download(self, tensor: Tensor) -> npt.NDArray[Any]:
        buffer = self._pinned(tensor)
        buffer.copy_(tensor)
        return buffer.numpy().copy()

    def numbers(self, values: Sequence[Any]) -> list[float]:
        there = [value for value in values if isinstance(value, Tensor) and not value.is_cpu]
        if not there:
            return super().numbers(values)
        brought = iter(
            self.download(torch.stack([wide(value.detach()).reshape(()) for value in there])).tolist()
        )
        known = {id(value): next(brought) for value in there}
        return [known[id(value)] if id(value) in known else float(value) for value in values]

    def to_host(self, batch: Any) -> Any:
        return each(batch, lambda tensor: tensor.cpu())

    def model(self, x: Vector) -> Tensor:
        return self._models.get(x, self.upload, self._room_for_models)

    def load(self, x: Vector, into: Tensor) -> None:
        into.copy_(self.model(x))

    def moved(self, y: Tensor, start: Vector) -> Vector:
        delta: Vector = self.download(y - self.model(start))
        return delta

    def send(self, batch: Any) -> Any:
        if self.type != "cuda":
            return each(batch, self.place)
        if self._copies is None:
            self._copies = torch.Stream(self.torch)
        with self._copies:
            there = each(batch, lambda tensor: tensor.pin_memory().to(self.torch, non_blocking=True))
        return OnItsWay(there, self._copies.record_event())

    def received(self, sent: Any) -> Any:
        """Waits for this batch and not for the next, which may be on its way behind it."""
        if not isinstance(sent, OnItsWay):
            return sent
        now = torch.accelerator.current_stream(self.torch)
        now.wait_event(sent.complete)
        each(sent.batch, lambda tensor: tensor.record_stream(now))
        return sent.batch

    def _pinned(self, like: Tensor) -> Tensor:
        """A buffer in main memory of this shape, from one session to the next."""
        if self._buffer is None or (self._buffer.shape, self._buffer.dtype) != (like.shape, like.dtype):
            pin = self.type == "cuda"
            self._buffer = torch.empty(like.shape, dtype=like.dtype, pin_memory=pin)
        return self._buffer

    @property
    def data_bytes(self) -> int:
        return self._own(DATA_SHARE)

    def _own(self, share: float) -> int:
        """Bytes of that share of what is free, for this one of the processes on the device."""
        return int(share * self.free_bytes() / processes_on(self.name))

    def _room_for_models(self) -> int:
        """Measured once: held models are themselves part of what is not free."""
        if self._model_bytes is None:
            self._model_bytes = self._own(MODEL_SHARE)
        return self._model_bytes

    def free_bytes(self) -> int:
        if self.type == "cuda":
            return torch.cuda.mem_get_info(self.torch)[0]
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        before = self._random_state()
        try:
            with super().seeded(seed):
                yield
        finally:
            self._put_back(before)

    def _random_state(self) -> Tensor:
        return torch.cuda.get_rng_state(self.torch) if self.type == "cuda" else torch.mps.get_rng_state()

    def _put_back(self, state: Tensor) -> None:
        if self.type == "cuda":
            torch.cuda.set_rng_state(state, self.torch)
        else:
            torch.mps.set_rng_state(state)

    @contextmanager
    def session(self, what: str, lower: str = LOWER) -> Iterator[None]:
        chosen = torch.cuda.device(self.torch) if self.type == "cuda" else nullcontext()
        with chosen, deterministic(), super().session(what, lower):
            yield


@contextmanager
def deterministic() -> Iterator[None]:
    """Algorithms that give the same bits every time; torch warns of an operation that has none."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before, only_warned = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=only_warned)


def each(batch: Any, function: Callable[[Tensor], Any]) -> Any:
    """`function` of every tensor in nested tuples, lists and dicts."""
    if isinstance(batch, Tensor):
        return function(batch)
    if isinstance(batch, Mapping):
        return {key: each(part, function) for key, part in batch.items()}
    if isinstance(batch, (tuple, list)):
        return tuple(each(part, function) for part in batch)
    return batch


def number(value: Any) -> float:
    """A number in main memory, or one that has to be waited for."""
    return float(value)


def wide(tensor: Tensor) -> Tensor:
    """In the widest floating-point type of its device."""
    return tensor.float() if tensor.device.type == "mps" else tensor.double()


def host_array(tensor: Tensor) -> npt.NDArray[Any]:
    """A tensor of main memory as an array."""
    return tensor.detach().numpy()


def host_tensor(array: npt.NDArray[Any]) -> Tensor:
    """A copy of an array as a tensor of main memory."""
    return torch.from_numpy(np.array(array))


def device(name: str | Device = "cpu", precision: str = "float32") -> Device:
    """The device of that name, if it is there: auto, cpu, cuda, cuda:1, mps. `auto` is a GPU where there is one."""
    if isinstance(name, Device):
        return name
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    name = _found() if name == "auto" else name_here(name)
    if name == "cpu":
        return Device(name, precision)
    if not re.fullmatch(r"cuda(:\d{1,3})?|mps", str(name)):
        raise unknown("device", name, ("auto", "cpu", "cuda", "cuda:1", "mps"))
    if lacking := _lacking(name):
        raise ConfigError(f"device {name} is not available: {lacking}")
    return Accelerator(name, precision)


def _arrived(kind: type[Device], name: str, precision: str) -> Device:
    """A device that another process sent, as it is called here."""
    return kind(name_here(name), precision)


def _found() -> str:
    return next((name for name in ("cuda", "mps") if not _lacking(name)), "cpu")


def _lacking(name: str) -> str:
    """Why there is no such device; nothing: there is."""
    kind, _, number = name.partition(":")
    if kind == "mps":
        return "" if torch.backends.mps.is_available() else f"torch {torch.__version__} sees no Apple GPU"
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        return f"torch {torch.__version__} sees no CUDA device"
    return "" if int(number or 0) < count else f"the last is cuda:{count - 1}"


def _is_out_of_memory(error: Exception) -> bool:
    said = str(error)
    known = ("out of memory", "can't allocate memory")
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(text in said for text in known)
