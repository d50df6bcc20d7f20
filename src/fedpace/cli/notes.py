"""Notes after a run: one line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedpace.compute import Task
    from fedpace.record import Run

QUIET_ROUNDS = 20  # a lazy rule that has not fired for so long gets a note
MOST_CLIENTS = 10_000  # beyond that the advice would take too long


def notes(run: Run, task: Task) -> Iterator[str]:
    """The applicable ones."""
    yield from _bias(run, task)
    yield from _sampling(run, task)
    yield from _weighting(run, task)
    yield from _silent_rules(run)
    yield from _flat(run)


def _bias(run: Run, task: Task) -> Iterator[str]:
    """Objective inconsistency: plain averaging of unequal local work minimises another objective."""
    from fedpace.aggregate import Mean, Weighted
    from fedpace.theory import Work, advice

    accounts = {int(c): a for c, a in run.traffic.get("clients", {}).items() if a["uploads"] and a["steps"]}
    known = hasattr(run.algorithm.local, "a_norm1")
    if (
        not known
        or not isinstance(run.algorithm.aggregate, Mean | Weighted)
        or not 1 < len(accounts) <= MOST_CLIENTS
    ):
        return
    weighted = isinstance(run.algorithm.aggregate, Weighted)
    steps, shares = [1] * (max(accounts) + 1), [0.0] * (max(accounts) + 1)
    for client, account in accounts.items():
        steps[client] = max(1, round(account["steps"] / account["uploads"]))
        shares[client] = task.samples(client) if weighted else 1.0
    line = advice(Work.of(run.algorithm.local, steps, shares))
    if line:
        yield line


def _sampling(run: Run, task: Task) -> Iterator[str]:
    """Normalised averaging whose weights under client sampling are off."""
    from fedpace.theory.sampling import note

    line = note(run.algorithm, task.clients, task.samples) if task.clients <= MOST_CLIENTS else None
    if line:
        yield line


def _flat(run: Run) -> Iterator[str]:
    """AMSGrad that adapts nothing: every coordinate's second moment is below eps."""
    from fedpace.server_opt import AMSGrad

    opt = run.algorithm.server_opt
    if isinstance(opt, AMSGrad) and run.history and run.counters.get("above_floor") == 0:
        yield (
            f"AMSGrad has not adapted: all second moments are below eps={opt.eps:g}, so the server is momentum at rate "
            f"{opt.lr / opt.eps**0.5:.3g}; lower eps (and server_lr with it), or take that rate for fedavgm's"
        )


def _weighting(run: Run, task: Task) -> Iterator[str]:
    """Equal weights for clients of very unequal size."""
    from fedpace.theory.weighting import note

    if task.clients > MOST_CLIENTS:
        return
    line = note(run.algorithm, [task.samples(client) for client in range(task.clients)])
    if line:
        yield line


def _silent_rules(run: Run) -> Iterator[str]:
    """A lazy rule that never fires saves nothing."""
    if len(run.history) < QUIET_ROUNDS:
        return
    for side, link in (("up", run.algorithm.up), ("down", run.algorithm.down)):
        tau = getattr(link, "tau", 0.0)
        if tau and not run.traffic.get(side, {}).get("fired"):
            steps = len(run.history)
            yield f"the lazy rule on the {side}link has not fired in {steps} server steps (tau={tau:g}); raise tau"
