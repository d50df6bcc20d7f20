"""The pool over Ray: the bits of `inline`, whatever is lost on the way. Skipped where Ray is not installed."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fedpace.compute import engine
from fedpace.errors import ConfigError
from fedpace.tasks import quadratics

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
INSTALLED = importlib.util.find_spec("ray") is not None


@pytest.mark.skipif(INSTALLED, reason="Ray is installed")
def test_without_ray_the_error_says_what_to_install() -> None:
    with pytest.raises(ConfigError, match=r"pip install 'fedpace\[ray\]'"):
        engine("ray", quadratics([1.0]), 2)


def alone() -> list[str]:
    """A network of this process's own with nothing but the loopback interface, where the system allows that."""
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "--net",
        "sh",
        "-c",
        'ip link set lo up && exec "$@"',
        "sh",
    ]
    able = shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True).returncode == 0
    return command if able else []


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not INSTALLED:
        pytest.skip("Ray is not installed: pip install 'fedpace[ray]'")
    killed, answer = tmp_path_factory.mktemp("killed"), tmp_path_factory.mktemp("facts") / "facts.json"
    command = [*alone(), sys.executable, str(HERE / "on_ray.py"), str(killed), str(answer)]
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "RAY_USAGE_STATS_ENABLED": "0"}
    env.pop("RAY_ADDRESS", None)
    said = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert said.returncode == 0, said.stderr
    found: dict[str, Any] = json.loads(answer.read_text())
    return found


def test_two_actors_give_the_bits_of_inline(facts: dict[str, Any]) -> None:
    assert len(facts["same"]) == 7
    assert facts["same"] == dict.fromkeys(facts["same"], True)


def test_a_killed_actor_only_costs_its_solves(facts: dict[str, Any]) -> None:
    assert facts["kill"]


def test_what_is_asked_counts_not_what_was_announced(facts: dict[str, Any]) -> None:
    assert facts["word"]


def test_a_sweep_over_ray_finds_what_one_on_this_machine_finds(facts: dict[str, Any]) -> None:
    assert [row[0] for row in facts["sweeps"]["ray"]] == ["client_lr", "0.1", "0.01"]
    assert facts["sweeps"]["ray"] == facts["sweeps"]["auto"]
