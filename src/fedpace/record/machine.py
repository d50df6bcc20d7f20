"""Where a run was made: versions and machine."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import fedpace

LIBRARIES = ("numpy", "torch", "scipy", "scikit-learn", "numba", "safetensors")


def described() -> dict[str, Any]:
    """Versions of what computes, and the machine it computes on."""
    return {
        "versions": {"fedpace": fedpace.__version__, "python": platform.python_version(), **_libraries()},
        "machine": {
            "host": platform.node(),
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
        },
    }


def _libraries() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    """The processor's name where the system tells it, else its kind."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
