"""Actors, nodes and whole programs that are lost over Ray: the result has the bits of `inline` all the same.

In namespaces that have nothing but a loopback interface, and whose processes end with the test; that takes root.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
ALONE = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
ALONE += ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


@pytest.fixture(scope="module")
def alone() -> list[str]:
    """Words before a command that is to have no network but the loopback interface."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'fedpace[ray]'")
    if not shutil.which("unshare") or not shutil.which("ip"):
        pytest.skip("needs unshare and ip (Debian: util-linux, iproute2)")
    if subprocess.run([*ALONE, "true"], capture_output=True).returncode:
        pytest.skip("only root can make a network namespace")
    return ALONE


def found(alone: list[str], what: str, scratch: Path) -> dict[str, Any]:
    answer = scratch / "found.json"
    command = [*alone, sys.executable, str(Path(__file__).parent / "ray_faults.py"), what, str(answer)]
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    env.pop("RAY_ADDRESS", None)
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # a short name: sockets lie in it
        env["RAY_TMPDIR"] = folder
        said = subprocess.run(command, env=env, capture_output=True, text=True, timeout=1800)
    assert said.returncode == 0, said.stderr
    facts: dict[str, Any] = json.loads(answer.read_text())
    return facts


SAME = {"fedbuff": True, "scaffold": True}


def test_actors_that_are_killed(alone: list[str], tmp_path: Path) -> None:
    facts = found(alone, "actors", tmp_path)
    assert facts["same"] == SAME
    assert facts["kills"] >= 2


def test_nodes_that_are_lost(alone: list[str], tmp_path: Path) -> None:
    """With their actors, which find no other place, and with the results in their object stores."""
    assert found(alone, "node", tmp_path) == {"same": SAME, "nodes": 1}


@pytest.mark.parametrize("where", ["driver", "alone"])
def test_a_program_that_is_killed_and_resumes(where: str, alone: list[str], tmp_path: Path) -> None:
    """In a cluster that stays, where its actors must go with it, and with a Ray of its own."""
    assert found(alone, where, tmp_path) == {"same": SAME, "kills": 4}
