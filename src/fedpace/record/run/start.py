"""The model that a run starts from: the task's own, or that of another run, a state_dict or a file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedpace.compute.protocol import Task
from fedpace.errors import ConfigError, require
from fedpace.privacy.spent import Privacy
from fedpace.record.run.model_file import account
from fedpace.record.run.run import Run
from fedpace.vector import Layout, Vector, freeze, is_finite, model_sha256

InitialLike = Run | Mapping[str, Any] | str | Path
MODEL = "model.safetensors"  # as `Run.save` calls it


@dataclass(frozen=True, slots=True)
class Start:
    """A model, and where it comes from if not from the task."""

    x: Vector
    parent: Mapping[str, str] = field(default_factory=dict)
    spent: Privacy | None = None  # by a private run that it continues
    unaccounted: str = ""  # what does not say whether its model was trained privately


def start_of(initial: InitialLike | None, task: Task, seed: int) -> Start:
    """The model as the task lays it out; ConfigError if it is one of another task."""
    own = task.initial(seed)
    if initial is None:
        return Start(own)
    label, tensors, spent = _tensors(initial)
    x = _flat(tensors, task.layout, own.dtype)
    require(is_finite(x), "initial", label, "a model of finite numbers")
    parent = {"run" if isinstance(initial, Run) else "source": label, "model_sha256": model_sha256(x)}
    says = isinstance(initial, Run) or spent is not None
    return Start(freeze(x), parent, spent, "" if says else label)


def warn_of_unknown_account(start: Start) -> None:
    """Of a private run whose first model may have been trained on the same clients."""
    if start.unaccounted:
        warnings.warn(
            f"initial: {start.unaccounted} does not say what its model cost in privacy; epsilon counts this run only",
            stacklevel=3,
        )


def _tensors(initial: object) -> tuple[str, Mapping[str, Any], Privacy | None]:
    """Where they come from, tensors by name, and what they have cost in privacy."""
    if isinstance(initial, Run):
        label = str(initial.summary.get("name") or initial)
        return label, initial.layout.split(initial.model), initial.privacy
    if isinstance(initial, Mapping):
        return "a state_dict", initial, None
    if isinstance(initial, str | Path):
        return str(initial), *_read(Path(initial))
    raise ConfigError(f"initial must be a Run, a state_dict or a file; got {type(initial).__name__}")


def _read(path: Path) -> tuple[Mapping[str, Any], Privacy | None]:
    """A file of safetensors, or the folder of a `Run.save`; nothing is unpickled."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    from fedpace.untrusted import read_regular

    file = path / MODEL if path.is_dir() else path
    try:
        data = read_regular(file)
        tensors = load(data)
        return tensors, account(data, tensors)
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"initial must be a file of safetensors, as Run.save writes; got {str(file)!r} ({error})"
        ) from None
    except ConfigError as error:
        raise ConfigError(f"initial: {file}: {error}") from None


def _flat(tensors: Mapping[str, Any], layout: Layout, dtype: np.dtype[Any]) -> Vector:
    """All tensors of the layout in one vector; others (buffers, frozen parameters) are left to the task."""
    missing = [name for name in layout.names if name not in tensors]
    require(not missing, "initial", sorted(tensors), f"a model with {', '.join(layout.names)}")
    x = np.empty(layout.size, dtype)
    for name, place in layout.split(x).items():
        given = _array(tensors[name])
        require(given.shape == place.shape, f"initial: {name}", given.shape, f"of shape {place.shape}")
        place[...] = given
    return x


def _array(value: Any) -> Any:
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
