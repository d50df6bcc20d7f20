"""LEAF's JSON (FEMNIST, Synthetic, ...): files with `users` and `user_data`, in the folders `train` and `test`.

Caldas et al., "LEAF: A Benchmark for Federated Settings", arXiv:1812.01097. Data whose samples are numbers; text is
refused. Files come from elsewhere, so they are bounded and checked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedpace.errors import ConfigError, require
from fedpace.tasks.datasets.client_files import Samples, assembled, checked, content_of, files_in
from fedpace.tasks.datasets.data import Array, Data
from fedpace.untrusted import brief, fits

IMAGE = {784: (1, 28, 28)}  # FEMNIST's images, one list of numbers each
_USER = {"x": list, "y": list}


def from_leaf(path: Path) -> Data:
    """The users of all files, in the order of their names; each is a natural group."""
    home = next((folder for folder in (path, path / "data") if (folder / "train").is_dir()), None)
    require(home is not None, "a folder of LEAF's", str(path), "one with the folders train and test")
    clients: dict[str, dict[str, Samples]] = {}
    for part in ("train", "test"):
        for file in files_in(Path(str(home)) / part, [".json"]):
            for user, samples in users_in(content_of(file), file.name).items():
                mine = clients.setdefault(user, {})
                require(part not in mine, f"{part} data of user", user, "in one file only")
                mine[part] = samples
    return assembled(path.name, f"leaf:{path}", dict(sorted(clients.items())), [])


def users_in(content: bytes, name: str) -> dict[str, Samples]:
    """The samples of every user in one file."""
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name} must be LEAF's JSON ({brief(str(error))})") from None
    shape = {"user_data": {str: _USER}}
    require(fits(whole, shape), name, type(whole).__name__, "an object with user_data: {user: {x, y}}")
    held = {user: data for user, data in whole["user_data"].items() if data["y"]}
    return {user: _samples(data, f"{name} user {brief(user)}") for user, data in held.items()}


def _samples(data: dict[str, Any], what: str) -> Samples:
    x = _numbers(data["x"], what)
    if x.ndim == 2 and x.shape[1] in IMAGE:
        x = x.reshape(len(x), *IMAGE[x.shape[1]])
    return checked(x, _numbers(data["y"], what), what)


def _numbers(values: list[Any], what: str) -> Array:
    try:
        found = np.array(values)
    except (ValueError, OverflowError):
        found = np.array(None)
    require(
        found.dtype.kind in "iuf" and found.ndim > 0, f"samples of {what}", "others", "numbers of one shape"
    )
    return found
