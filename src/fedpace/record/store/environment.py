"""Where a run was made: versions and machine."""

from __future__ import annotations

import os
import platform
import sys

import fedpace

LIBRARIES = ("numpy", "torch", "numba", "scipy", "sklearn", "safetensors")


def described() -> dict[str, object]:
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
    """Those that are loaded: no others had a part in the run."""
    loaded = {name: sys.modules[name] for name in LIBRARIES if name in sys.modules}
    return {name: str(getattr(module, "__version__", "unknown")) for name, module in loaded.items()}


def _processor() -> str:
    """The processor's name where the system tells it, else its kind."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
