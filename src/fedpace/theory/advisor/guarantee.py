"""The bound of a plan as a function of how long it runs, for comparison with a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedpace.aggregate import Cached, Normalised, PerStep
from fedpace.pace import Arrivals, Buffered, Polled
from fedpace.server_opt import AMSGrad, Momentum, Stages
from fedpace.theory import buffered_bounds, defedavg_bounds, momentum_bounds, nova_bounds, two_way_bounds
from fedpace.theory.defedavg_bounds import Rates
from fedpace.theory.momentum_bounds import Schedule

if TYPE_CHECKING:
    from fedpace.theory.advisor.plan import Plan


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a theorem promises: (client_lr, server steps) -> mean squared gradient, for rates up to `limit`."""

    limit: float
    bound: Callable[[float, int], float]
    source: str


def guarantee(plan: Plan) -> Guarantee | None:
    """The theorem about this plan; None where there is none."""
    a = plan.algorithm
    if isinstance(a.aggregate, Normalised):
        return _nova(plan)
    if isinstance(a.server_opt, AMSGrad):
        return _adaptive(plan)
    if isinstance(a.pace, Polled | Arrivals):
        return _defedavg(plan, iid=isinstance(a.pace, Arrivals))
    if isinstance(a.pace, Buffered) and not isinstance(a.aggregate, PerStep):
        return _buffered(plan)
    return _momentum(plan) if isinstance(a.server_opt, Momentum | Stages) else None


def _nova(plan: Plan) -> Guarantee | None:
    s, work = plan.setting, plan.work
    if work is None:
        return None
    known = work
    problem: dict[str, Any] = {
        "smoothness": s.smoothness,
        "sigma2": s.noise,
        "kappa2": s.spread,
        "gap": s.gap,
    }

    def bound(client_lr: float, rounds: int) -> float:
        if s.sampled:
            return nova_bounds.sampled_bound(known, client_lr, rounds, s.m, **problem).total
        return nova_bounds.bound(known, client_lr, rounds, **problem).total

    limit = (
        nova_bounds.sampled_limit(work, s.m, s.smoothness)
        if s.sampled
        else nova_bounds.limit(work, s.smoothness)
    )
    return Guarantee(limit, bound, f"Wang et al. 2020, {'(182)' if s.sampled else '(96)'}")


def _adaptive(plan: Plan) -> Guarantee:
    server, link = plan.adaptive, plan.link
    return Guarantee(
        two_way_bounds.limit(plan.setting, server, link),
        lambda client_lr, rounds: two_way_bounds.bound(plan.setting, server, link, client_lr, rounds).total,
        "Bidirectional, corrected",
    )


def _defedavg(plan: Plan, *, iid: bool) -> Guarantee:
    s, server_lr, delay = plan.setting, plan.server_lr, plan.delays.largest
    limit = defedavg_bounds.iid_limit if iid else defedavg_bounds.niid_limit
    bound = defedavg_bounds.iid_bound if iid else defedavg_bounds.niid_bound
    return Guarantee(
        limit(s, server_lr, delay),
        lambda client_lr, rounds: bound(s, Rates(client_lr, server_lr), rounds).total,
        f"DeFedAvg, Theorem {2 if iid else 1}",
    )


def _buffered(plan: Plan) -> Guarantee:
    s, server_lr, delay, age = plan.setting, plan.server_lr, plan.delays.largest, plan.delays.cache_age
    if not isinstance(plan.algorithm.aggregate, Cached):
        return Guarantee(
            buffered_bounds.fedbuff_limit(s, server_lr, delay),
            lambda lr, rounds: buffered_bounds.fedbuff_bound(s, lr, server_lr, delay, rounds).total,
            "CA2FL, Theorem B.5, corrected",
        )
    more = buffered_bounds.inflation(plan.worst_cache_q)
    return Guarantee(
        buffered_bounds.ca2fl_limit(s, server_lr, delay, age, more),
        lambda lr, rounds: buffered_bounds.ca2fl_bound(s, lr, server_lr, delay, age, rounds, more).total,
        "CA2FL, Theorem B.7, corrected",
    )


def _momentum(plan: Plan) -> Guarantee:
    s, server = plan.setting, plan.algorithm.server_opt

    def schedule(rounds: int) -> Schedule:
        return Schedule.of(server if isinstance(server, Stages) else Stages(((rounds, server),)))

    if isinstance(plan.algorithm.aggregate, PerStep):
        delay, steps = plan.delays.largest, plan.arriving_steps
        return Guarantee(
            min(momentum_bounds.limits_autonomous(schedule(plan.rounds), s, delay)),
            lambda lr, rounds: momentum_bounds.bound_autonomous(schedule(rounds), s, lr, delay, steps).total(
                s
            ),
            "Sun et al. 2024, Theorem 5.1",
        )
    limit = momentum_bounds.limit_partial if s.sampled else momentum_bounds.limit_full
    bound = momentum_bounds.bound_partial if s.sampled else momentum_bounds.bound_full
    return Guarantee(
        limit(schedule(plan.rounds), s),
        lambda lr, rounds: bound(schedule(rounds), s, lr).total(s),
        f"Sun et al. 2024, Theorem {'4.6' if s.sampled else '4.1'}",
    )
