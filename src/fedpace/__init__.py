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

import importlib
from typing import TYPE_CHECKING

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
    "Algorithm": "fedpace.algorithm",
    "Run": "fedpace.record",
    "Stop": "fedpace.errors",
    "Study": "fedpace.study.study",
    "cite": "fedpace.citations",
    "compare": "fedpace.study.compare",
    "runs": "fedpace.study.saved",
    "simulate": "fedpace.experiment",
    "sweep": "fedpace.study.sweeping",
}

if not TYPE_CHECKING:  # a type checker sees the imports above and reports names that are not among them

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            return getattr(importlib.import_module(_HOMES[name]), name)
        if name in __all__:
            return importlib.import_module(f"fedpace.{name}")
        raise AttributeError(f"module 'fedpace' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
