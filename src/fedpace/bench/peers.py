"""Other frameworks on the same workloads, each in an environment of its own and never imported here.

FEDPACE_PEERS names a folder with one virtual environment per framework, named as below. A framework takes part if
its environment is there: the environment's own interpreter runs `scripts/with_NAME.py`, which speaks as `contender`
does.
"""

from __future__ import annotations

import os
from pathlib import Path

from fedpace.bench.workloads import Workload

SCRIPTS = Path(__file__).parent / "scripts"
OWN = ("W5", "W6", "W7")
SYNCHRONOUS = ("W1", "W2", "W3")
PEERS = {
    "appfl": (*SYNCHRONOUS, "W4"),
    "fedjax": SYNCHRONOUS,
    "flgo": (*SYNCHRONOUS, "W4"),
    "flower": (*SYNCHRONOUS, *OWN),
    "flsim": (*SYNCHRONOUS, "W4"),
    "fluke": SYNCHRONOUS,
    "pfl": (*SYNCHRONOUS, *OWN),
}


def commands(workload: Workload) -> dict[str, list[str]]:
    """How to start those that are installed and know this workload."""
    folder = os.environ.get("FEDPACE_PEERS")
    if folder is None:
        return {}
    found: dict[str, list[str]] = {}
    for name, known in PEERS.items():
        python = Path(folder).expanduser() / name / "bin" / "python"
        if workload.name in known and python.exists():
            found[name] = [str(python), str(SCRIPTS / f"with_{name}.py"), workload.name]
    return found
