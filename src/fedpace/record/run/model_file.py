"""A model as a file of safetensors: tensors by name and, of a private run, what the model has cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fedpace.errors import ConfigError
from fedpace.privacy.spent import Privacy

Tensors = Mapping[str, npt.NDArray[Any]]
ACCOUNT, CHECKSUM = "privacy", "model_sha256"


def encode(tensors: Tensors, spent: Privacy | None, about: Mapping[str, str] | None = None) -> bytes:
    """The file's content; `about` is further metadata."""
    from safetensors.numpy import save

    metadata = dict(about or {})
    if spent is not None:
        account = spent.plain()
        metadata[ACCOUNT] = json.dumps({**account, CHECKSUM: digest(json.dumps(account), tensors)})
    return save(dict(tensors), metadata or None)


def account(data: bytes, tensors: Tensors) -> Privacy | None:
    """What the model in this file has cost; None if the file does not say. ConfigError if it is another model's."""
    text = metadata(data).get(ACCOUNT)
    if text is None:
        return None
    try:
        plain = json.loads(text)
        checksum = plain.pop(CHECKSUM)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError("its privacy account must be one that Run.save writes") from None
    spent = Privacy.read(plain)
    if checksum != digest(json.dumps(plain), tensors):
        raise ConfigError("its privacy account must match its model; one of them was changed")
    return spent


def metadata(data: bytes) -> dict[str, str]:
    """The texts in the header of a safetensors file; ValueError for anything else."""
    size = int.from_bytes(data[:8], "little")
    about: dict[str, str] = json.loads(data[8 : 8 + size]).get("__metadata__", {})
    return about


def digest(head: str, arrays: Tensors) -> str:
    """SHA-256 of a text and of tensors with their names, types and shapes."""
    found = hashlib.sha256(head.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.name} {array.shape}".encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()
