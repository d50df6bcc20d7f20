"""Nothing needs what only POSIX has: simulations, checkpoints, a pool and the command line run without it.

A Python without those modules and functions stands in for Windows here; Windows itself is another matter.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

# run by every interpreter before anything else, so by workers too
WITHOUT_POSIX = """
import os, signal, sys

for module in ("fcntl", "grp", "nis", "ossaudiodev", "pty", "pwd", "resource", "spwd", "syslog", "termios", "tty"):
    sys.modules[module] = None  # to import it is an ImportError
for name in (
    "fork", "forkpty", "getuid", "geteuid", "getgid", "getegid", "getpgid", "setsid", "killpg",
    "sched_getaffinity", "sched_setaffinity", "O_DIRECTORY", "O_NOFOLLOW", "mkfifo", "getloadavg", "nice",
):
    delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGSTOP", "SIGALRM", "SIGUSR1", "SIGCHLD", "pthread_sigmask", "pause", "alarm"):
    delattr(signal, name)
"""


@pytest.fixture
def elsewhere(tmp_path: Path):
    """Run a script, or `-m` a module, where there is no POSIX; what it printed."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_POSIX, encoding="utf-8")
    paths = os.pathsep.join((str(tmp_path), str(SOURCE)))
    own = {name: str(tmp_path / name) for name in ("FEDPACE_HOME", "FEDPACE_DATA")}
    env = {**os.environ, **own, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}

    def call(*words: str) -> str:
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def test_what_is_taken_away_is_away(elsewhere) -> None:
    code = (
        "import os, signal, sys; print(hasattr(os, 'fork'), hasattr(signal, 'SIGKILL'), sys.modules['fcntl'])"
    )
    assert elsewhere("-c", code).split() == ["False", "False", "None"]


SIMULATION = """
import numpy as np
import fedpace
from fedpace.compute import workers
from fedpace.errors import ConfigError
from fedpace.record import Checkpoints
from fedpace.disk.locks import locked
from pathlib import Path

algorithm = fedpace.algorithms.ca2fl(client_lr=0.1, steps=2, buffer=2, concurrency=3)
task = fedpace.tasks.quadratics(np.arange(12.0).reshape(4, 3), initial=1.0)

class Power(fedpace.sim.Observer):
    def recorded(self, record, x):
        if record.version == 5:
            raise KeyboardInterrupt

def run(**more):
    return fedpace.simulate(algorithm, task, rounds=8, keep_models=True, **more)

plan = Checkpoints("run", every=2)
try:
    run(checkpoint=plan, observers=[Power()])
except KeyboardInterrupt:
    print("interrupted")
try:
    with locked(Path("run")):
        run(checkpoint=plan)
except ConfigError as error:
    print(str(error).split("; ")[1])
whole, resumed, pooled = run(), run(checkpoint=plan), run(compute="pool", workers=2, spill=".")
print(workers.start_method(), pooled.summary["compute"])
for other in (resumed, pooled):
    print(other.to_json() == whole.to_json(), np.array_equal(other.models, whole.models))
"""


def test_simulate(elsewhere, tmp_path: Path) -> None:
    """Inline, from a checkpoint, and in a pool, which is spawned then: the same bits."""
    (tmp_path / "simulation.py").write_text(SIMULATION, encoding="utf-8")
    assert elsewhere("simulation.py").splitlines() == [
        "interrupted",
        "another process is working in it",
        "spawn pool of 2 workers",
        "True True",
        "True True",
    ]


COMMANDS = """
import shlex
from fedpace.cli import main

for line in '''
run fedavg --clients 10 --model softmax --rounds 2 --quiet --name first --timeline when.csv
runs
resume first --quiet
timeline when.csv
runs delete first
data list
bench W1
'''.strip().splitlines():
    print("code", main(shlex.split(line)), line.split()[0])
"""


def test_the_command_line(elsewhere, tmp_path: Path) -> None:
    """All but the bench, whose yardstick forks: that is refused."""
    (tmp_path / "commands.py").write_text(COMMANDS, encoding="utf-8")
    codes = [line.split()[1:] for line in elsewhere("commands.py").splitlines() if line.startswith("code ")]
    expected = [["0", verb] for verb in ("run", "runs", "resume", "timeline", "runs", "data")]
    assert codes == [*expected, ["2", "bench"]]
