"""Peak memory of a small run with a large model, in model sizes.

`python -m fedpace.bench.memory ALGORITHM PARAMETERS` is the run. Measured from outside is the sum of the proportional
set sizes (PSS) of its processes, minus that of the same run with a thousand parameters.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from fedpace.errors import ConfigError

PARAMETERS = 100_000_000
SMALL, WIDE = 1000, 1000
CLIENTS, ROUNDS = 4, 2
TARGETS = {"fedavg": 6, "two_way": 11}
EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class MemoryResult:
    algorithm: str
    parameters: int
    peak_bytes: int  # beyond the run with a small model
    model_sizes: float
    target: int


def measure(parameters: int) -> list[MemoryResult]:
    if not Path("/proc/self/smaps_rollup").exists():
        raise ConfigError("memory can be measured on Linux only, where /proc reports it")
    return [_measured(algorithm, parameters) for algorithm in TARGETS]


def _measured(algorithm: str, parameters: int) -> MemoryResult:
    beyond = peak(algorithm, parameters) - peak(algorithm, SMALL)
    return MemoryResult(algorithm, parameters, beyond, beyond / (4 * parameters), TARGETS[algorithm])


def peak(algorithm: str, parameters: int) -> int:
    """The most that the run's processes held at once."""
    command = [sys.executable, "-m", "fedpace.bench.memory", algorithm, str(parameters)]
    most = 0
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            most = max(most, sum(map(pss_bytes, family(process.pid))))
            time.sleep(EVERY_S)
    if process.returncode:
        raise ConfigError(
            f"the run with {parameters:,} parameters must end well; it ended with {process.returncode}"
        )
    return most


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    except OSError:
        return [pid]
    return [pid, *(each for child in children for each in family(int(child)))]


def pss_bytes(pid: int) -> int:
    """0 for a process that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def run(algorithm: str, parameters: int) -> None:
    import torch
    from torch import nn

    import fedpace

    data = torch.ones(4, WIDE), torch.zeros(4, dtype=torch.int64)
    module = nn.Linear(WIDE, max(1, parameters // WIDE), bias=False)
    task = fedpace.tasks.from_torch(module, nn.functional.cross_entropy, [data] * CLIENTS, data)
    del module
    chosen = getattr(fedpace.algorithms, algorithm)(clients_per_round=CLIENTS, steps=1, batch_size=4)
    fedpace.simulate(chosen, task, rounds=ROUNDS, evaluate_every=None, traces=False)


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]))
