"""Where things lie on Flower: an app is unpacked anew for every change of it, so nothing may lie beside its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedpace.disk.home import home
from fedpace.errors import require


def study_place(run: Mapping[str, Any]) -> Path:
    """`folder` of the run's configuration, or a folder in FEDPACE_HOME by the study's name."""
    if chosen := run.get("folder"):
        require(isinstance(chosen, str), "folder", chosen, "a path")
        return Path(chosen).expanduser()
    return home() / "flower" / study_name(run)


def study_name(run: Mapping[str, Any]) -> str:
    name = run.get("name", "")
    plain = isinstance(name, str) and name not in ("", ".", "..") and not set(name) & set("/\\:")
    require(plain, "name", name, "a folder's name, in [tool.flwr.app.config]")
    return str(name)


def client_place(node: Mapping[str, Any], run: Mapping[str, Any]) -> Path:
    """`folder` of the node's configuration, which is its owner's; otherwise one per client in the study's."""
    if chosen := node.get("folder"):
        require(isinstance(chosen, str), "folder", chosen, "a path")
        return Path(chosen).expanduser()
    return study_place(run) / "clients" / str(node.get("client", node.get("partition-id")))
