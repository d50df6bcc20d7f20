"""One contender as a process: `python -m fedpace.bench.contender WORKLOAD WHO`.

It gets ready, says so, and then for every line with a number of rounds trains them and answers with the
seconds that took and the most memory it has used, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fedpace.bench.workloads import WORKLOADS, Workload

if TYPE_CHECKING:
    from fedpace.tasks import TorchTask


def ours(workload: Workload, workers: int) -> Callable[[int], None]:
    """fedpace, as a user would call it; only evaluation is left out."""
    import fedpace

    task, algorithm = _loaded(workload), workload.make_algorithm()

    def run(rounds: int) -> None:
        fedpace.simulate(algorithm, task, rounds=rounds, workers=workers, evaluate_every=None, traces=False)

    return run


def bare(workload: Workload, processes: int) -> Callable[[int], None]:
    from fedpace.bench.bare import one_process, two_processes

    make = one_process if processes == 1 else two_processes
    return make(workload, _loaded(workload))


def _loaded(workload: Workload) -> TorchTask:
    """With all clients' sample counts loaded: reading them is not part of a round."""
    task = workload.make_task()
    for client in range(task.clients):
        task.client_data(client)
    return task


WHO: dict[str, tuple[Callable[[Workload, int], Callable[[int], None]], int]] = {
    "bare 1": (bare, 1),
    "bare 2": (bare, 2),
    "fedpace 1": (ours, 1),
    "fedpace 2": (ours, 2),
}


def peak_bytes() -> int:
    """Of this process and the largest of its children that have ended; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return 1024 * max(resource.getrusage(who).ru_maxrss for who in whose)


def main() -> None:
    workload = WORKLOADS[sys.argv[1]]
    make, processes = WHO[sys.argv[2]]
    run = make(workload, processes)
    run(1)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        run(int(line))
        print(json.dumps({"seconds": time.perf_counter() - began, "peak_bytes": peak_bytes()}), flush=True)


if __name__ == "__main__":
    main()
