"""Other frameworks on the same workloads, each in an environment of its own and never imported here.

FEDPACE_PEERS names a folder with one virtual environment per framework. A framework takes part if its
environment and its script in `scripts` are there; the script is run by the environment's own interpreter and
speaks as `contender` does.
"""

from __future__ import annotations

import os
from pathlib import Path

from fedpace.bench.workloads import Workload

SCRIPTS = Path(__file__).parent / "scripts"


def commands(workload: Workload) -> dict[str, list[str]]:
    """How to start those that are installed and know this workload."""
    folder = os.environ.get("FEDPACE_PEERS")
    if folder is None:
        return {}
    found: dict[str, list[str]] = {}
    for script in sorted(SCRIPTS.glob("*.py")):
        python = Path(folder).expanduser() / script.stem / "bin" / "python"
        if python.exists() and workload.algorithm == "fedavg":
            found[script.stem] = [str(python), str(script), workload.name]
    return found
