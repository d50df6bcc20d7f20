"""fedpace: federated optimization, every client at its own pace.

An algorithm is a value made of rules; a task is data and a model; `simulate` runs one on the other under a
virtual clock and returns a `Run`:

    import fedpace

    task = fedpace.tasks.load("digits", clients=100, partition="dirichlet:0.5")
    run = fedpace.simulate(fedpace.algorithms.fedgm(), task, rounds=50)
    print(run)

The rules, in the order an update meets them: `pace` (client scheduling), `local` (local training),
`link` (bytes up and down), `aggregate` (many updates to one), `server_opt` (one update to the next model).
Subpackages are imported when first used: `import fedpace` is cheap and never imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedpace.on_demand import importing

if TYPE_CHECKING:
    from fedpace import (
        aggregate,
        algorithms,
        bench,
        check,
        citations,
        cli,
        client,
        compute,
        deploy,
        errors,
        link,
        local,
        pace,
        privacy,
        random,
        record,
        reproduce,
        server,
        server_opt,
        sim,
        statistics,
        study,
        tasks,
        theory,
        vector,
    )
    from fedpace.algorithm import Algorithm
    from fedpace.citations import cite
    from fedpace.errors import Stop
    from fedpace.experiment import simulate
    from fedpace.record import Run
    from fedpace.study.compare import compare
    from fedpace.study.saved import runs
    from fedpace.study.study import Study
    from fedpace.study.sweeping import sweep

__version__ = "0.2.0"

__all__ = [
    "Algorithm",
    "Run",
    "Stop",
    "Study",
    "aggregate",
    "algorithms",
    "bench",
    "check",
    "citations",
    "cite",
    "cli",
    "client",
    "compare",
    "compute",
    "deploy",
    "errors",
    "link",
    "local",
    "pace",
    "privacy",
    "random",
    "record",
    "reproduce",
    "runs",
    "server",
    "server_opt",
    "sim",
    "simulate",
    "statistics",
    "study",
    "sweep",
    "tasks",
    "theory",
    "vector",
]

_HOMES = {
    "algorithm": ("Algorithm",),
    "citations": ("cite",),
    "errors": ("Stop",),
    "experiment": ("simulate",),
    "record": ("Run",),
    "study.compare": ("compare",),
    "study.saved": ("runs",),
    "study.study": ("Study",),
    "study.sweeping": ("sweep",),
}

if not TYPE_CHECKING:  # a type checker sees the imports above and reports names that are not among them
    __getattr__, __dir__ = importing(__name__, _HOMES, __all__)
