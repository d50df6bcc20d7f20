"""DeFedAvg, both variants: rates, bounds, and how far more updates per step still mean fewer steps."""

from __future__ import annotations

from fedpace.theory import defedavg_bounds as bounds
from fedpace.theory.defedavg_bounds import Rates
from fedpace.theory.setting import (
    EXACT,
    ORDER,
    SUFFICIENT,
    UPPER,
    Section,
    Setting,
    StatedQuantity,
    rate_held,
)

DEFEDAVG = "DeFedAvg"


def polled(
    setting: Setting, client_lr: float, server_lr: float, delay: int, rounds: int, *, iid: bool
) -> Section:
    """Theorem 1 (non-IID, clients drawn) or 2 (IID, first come)."""
    name, theorem = ("defedavg_iid", "Theorem 2") if iid else ("defedavg_niid", "Theorem 1")
    limit = (bounds.iid_limit if iid else bounds.niid_limit)(setting, server_lr, delay)
    rate, at = rate_held(client_lr, limit)
    bound = (bounds.iid_bound if iid else bounds.niid_bound)(setting, Rates(rate, server_lr), rounds)
    own = (bounds.iid_rates if iid else bounds.niid_rates)(setting, rounds)
    enough = (bounds.iid_min_rounds if iid else bounds.niid_min_rounds)(setting, delay)
    updates = (bounds.iid_max_updates if iid else bounds.niid_max_updates)(setting, delay, rounds)
    condition = f"{DEFEDAVG}, ({'13' if iid else '11'})"
    where = f"{DEFEDAVG}, {theorem}"
    quantities = (
        StatedQuantity("client_lr up to which the bound holds", limit, SUFFICIENT, condition),
        StatedQuantity(f"mean squared gradient after {rounds} steps{at}", bound.total, UPPER, where),
        StatedQuantity("client_lr of the theorem", own.client_lr, SUFFICIENT, where),
        StatedQuantity("server_lr of the theorem", own.server_lr, SUFFICIENT, where),
        StatedQuantity("steps from which these meet the condition", enough, SUFFICIENT, condition),
        StatedQuantity(
            "updates per step with linear speedup", updates, SUFFICIENT, f"{condition} in {rounds} steps"
        ),
        StatedQuantity(
            "speedup of this many updates, in steps", setting.m, ORDER, f"{where}: steps to a target ~ 1/n"
        ),
    )
    return Section(name, quantities if iid else (*quantities, *_absence(setting, rounds)))


def _absence(setting: Setting, rounds: int) -> tuple[StatedQuantity, ...]:
    drawn = 1 - (1 - 1 / setting.clients) ** setting.m
    longest = bounds.longest_absence(setting.clients, setting.m, rounds)
    order = bounds.delay_order(setting.clients, setting.m, rounds)
    return (
        StatedQuantity("chance of a client to be drawn in a step", drawn, EXACT, "1 - (1 - 1/N)^n"),
        StatedQuantity(
            "steps until all clients are drawn again", longest, UPPER, "95 % of runs, union bound"
        ),
        StatedQuantity(
            "the paper's order of the delay", order, ORDER, f"{DEFEDAVG}, section 3: (1 + log(NT/0.05)) / p"
        ),
    )
