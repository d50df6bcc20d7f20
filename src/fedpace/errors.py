"""The errors, by cause.

FedpaceError
├── ConfigError      you asked for something impossible       -> raised when the value is built
├── ProtocolError    a driver called a machine out of turn      -> raised; nothing has changed
├── RemoteError      a peer sent something unusable           -> recorded and counted, never fatal
│   └── FrameError   ... in its bytes
├── NotFiniteError   a step leads to NaN or infinity          -> the step is not taken
├── TooFewError      a step has too few updates for its rule  -> the step is not taken
├── DivergedError    steps or updates are no longer finite    -> the run ends, exit code 3
├── StalledError     nothing can happen any more              -> the run ends with the partial run
├── OutOfMemory      a device's memory is used up             -> the run ends; it says what to lower
├── StorageError     the disk did not take what must be saved  -> the run ends; the last checkpoint is good
└── CheckpointError  a checkpoint that cannot be resumed      -> refused; the previous one is offered

Stop is no error: an observer raises it to end a run on purpose.
"""

from __future__ import annotations

import difflib
import inspect
import math
import numbers
import signal
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from fedpace.untrusted import as_number, brief

P = ParamSpec("P")
R = TypeVar("R")


class FedpaceError(Exception):
    """Root of every error raised on purpose."""


class ConfigError(FedpaceError, ValueError):
    """A value asks for something impossible."""


class ProtocolError(FedpaceError, RuntimeError):
    """A machine was told of something that cannot happen now."""


class RemoteError(FedpaceError):
    """A peer broke the protocol."""


class FrameError(RemoteError):
    """Bytes that are not a frame we accept."""


class NotFiniteError(FedpaceError, ArithmeticError):
    """A rule's result has an entry that is NaN or infinite."""


class TooFewError(FedpaceError):
    """A step has fewer updates than its aggregation rule can take."""


class DivergedError(FedpaceError):
    """Steps, or the updates that make them, are not finite any more."""

    run: Any = None  # the partial run
    advice = ""  # what to do about it
    clients: tuple[int, ...] = ()  # those that it happened to

    def __str__(self) -> str:
        return "; ".join(part for part in (super().__str__(), self.advice) if part)


class StalledError(FedpaceError):
    """No event is left, yet the run has steps to go."""

    run: Any = None  # the partial run


class OutOfMemory(FedpaceError):
    """Local training does not fit the memory of its device."""


class StorageError(FedpaceError):
    """The disk is full, or cannot be written to."""

    run: Any = None  # the partial run


class Stop(Exception):
    """Raised by an observer: end the run here, on purpose. `simulate` returns the run, with the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class CheckpointError(FedpaceError):
    """A checkpoint is missing, damaged, of a newer version, or of another experiment."""


class InterruptedRun(KeyboardInterrupt):
    """Ctrl-C was pressed, or another signal came; `run` is the partial run."""

    def __init__(self, run: Any, number: int = signal.SIGINT) -> None:
        super().__init__("interrupted" if number == signal.SIGINT else run.stopped)
        self.run, self.signal = run, int(number)


MAX_COUNT = 2**63 - 1  # what a database and a 64-bit loop can hold


def require(ok: bool, what: str, got: object, allowed: str) -> None:
    """Raise ConfigError in the one shape all our messages share."""
    if not ok:
        raise ConfigError(f"{what} must be {allowed}; got {brief(got)}")


SYNONYMS = {  # what people call it elsewhere -> here, without case, dashes and underscores
    "lr": "client_lr",
    "learningrate": "client_lr",
    "clientlearningrate": "client_lr",
    "serverlearningrate": "server_lr",
    "localepochs": "epochs",
    "localsteps": "steps",
    "mu": "prox_mu",
    "numclients": "clients",
    "numrounds": "rounds",
    "samplesize": "clients_per_round",
    "buffersize": "buffer",
    "dir": "dirichlet",
    "noniid": "dirichlet",
    "fedopt": "fedadam",
    "lenet": "cnn",
    "logistic": "softmax",
    "logisticregression": "softmax",
    "resnet": "resnet18",
    "vgg": "vgg11",
    "lstm": "gru",
    "fmnist": "fashion-mnist",
    "gpu": "cuda",
    "acc": "accuracy",
    "cifar": "cifar10",
    "femnist": "leaf:PATH",
}


def nearest(got: object, names: Iterable[str], *, surely: bool = False) -> str:
    """The name that is likely meant: the same but for its writing, a synonym or, unless `surely`, the most alike."""
    known = {_letters(name): name for name in names}
    word = _letters(str(got))
    for candidate in (word, _letters(SYNONYMS.get(word, ""))):
        if candidate in known:
            return known[candidate]
    near = [] if surely else difflib.get_close_matches(word, known, n=1)
    return known[near[0]] if near else ""


def _letters(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def unknown(what: str, got: str, allowed: Iterable[str], hint: str = "") -> ConfigError:
    """The error for a name that is none of `allowed`, with the likely one suggested; `hint`: where none of them is."""
    names = sorted(allowed)
    said = f"{what} must be one of {', '.join(names)}; got {brief(got)}"
    return ConfigError(suggested(nearest(got, names) or hint, said))


def known_parameters(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which answers a keyword it does not have with a ConfigError that lists those it has."""
    names = inspect.signature(function).parameters

    @wraps(function)
    def call(*args: P.args, **given: P.kwargs) -> R:
        for name in given:
            if name not in names:
                raise unknown(f"parameter of {function.__name__}", name, names)
        return function(*args, **given)

    return call


def suggested(near: str, said: str) -> str:
    """An error with the likely intention first, where there is one."""
    return f"did you mean {near}? {said}" if near else said


def require_number(
    value: object,
    what: str,
    *,
    low: float = -math.inf,
    above: float = -math.inf,
    high: float = math.inf,
    below: float = math.inf,
    allowed: str,
) -> None:
    """`low <= value <= high` and `above < value < below`; NaN, text and None are refused."""
    number = as_number(value)
    is_number = isinstance(value, numbers.Real) or not allowed.startswith((">", "<", "in "))
    bounds = allowed if is_number else f"a number {allowed}"
    require(low <= number <= high and above < number < below, what, value, bounds)


def require_flag(value: object, what: str) -> None:
    """A bool and nothing else: the word "false" would count as true."""
    require(isinstance(value, bool), what, value, "True or False")


def require_count(value: object, what: str, *, low: int = 1, high: int = MAX_COUNT) -> None:
    """A whole number of at least `low`, and of at most `high`."""
    if type(value) is int and low <= value <= high:
        return  # nearly always, and asked for every session
    whole = not isinstance(value, bool) and isinstance(value, numbers.Integral)
    number = int(value) if whole else low - 1  # type: ignore[call-overload]
    bounds = f"a whole number >= {low}" if number <= high else f"a whole number in {low}..{high}"
    require(low <= number <= high, what, value, bounds)
