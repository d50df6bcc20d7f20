"""FedBuff, CA2FL and MF-CA2FL: delay, heterogeneity, and what the cache removes."""

from __future__ import annotations

from fedpace.theory import buffered_bounds as bounds
from fedpace.theory.momentum_rates import skewed_arrival
from fedpace.theory.setting import ORDER, SUFFICIENT, UPPER, Section, Setting, StatedQuantity, rate_held

WANG = "CA2FL"


def buffered(
    setting: Setting,
    client_lr: float,
    server_lr: float,
    delay: int,
    cache_age: int,
    rounds: int,
    *,
    cached: bool,
    q: float = 0.0,
    shares: tuple[float, ...] | None = None,
) -> Section:
    """Theorem B.5 without, B.7 with a cache, C.3 with a quantised one; `q` is E||Q(x) − x||² over ||x||²."""
    quantities = (
        _cached(setting, client_lr, server_lr, delay, cache_age, rounds, q)
        if cached
        else _plain(setting, client_lr, server_lr, delay, rounds)
    )
    title = ("mf-ca2fl" if q else "ca2fl") if cached else "fedbuff"
    return Section(title, (*quantities, *_arrivals(setting, shares, cached)))


def _plain(
    setting: Setting, client_lr: float, server_lr: float, delay: int, rounds: int
) -> tuple[StatedQuantity, ...]:
    where = f"{WANG}, Theorem B.5, corrected"
    highest = bounds.fedbuff_limit(setting, server_lr, delay)
    rate, at = rate_held(client_lr, highest)
    terms = bounds.fedbuff_bound(setting, rate, server_lr, delay, rounds)
    orders = bounds.fedbuff_orders(setting, delay, rounds)
    return (
        *_bound(highest, f"{rounds} steps{at}", terms.total, terms.stale, where),
        *_preset(setting, rounds, orders.total, "Cor. B.6"),
        StatedQuantity(
            "delay times heterogeneity, K tau² sigma_g² / T", orders.stale_spread, ORDER, f"{WANG}, (B.2)"
        ),
        StatedQuantity(
            "clients in the buffer, sqrt(K/(TM)) sigma_g²", orders.members, ORDER, f"{WANG}, (B.2)"
        ),
    )


def _cached(
    setting: Setting, client_lr: float, server_lr: float, delay: int, age: int, rounds: int, q: float
) -> tuple[StatedQuantity, ...]:
    where = f"{WANG}, Theorem {'C.3' if q else 'B.7'}, corrected"
    inflation = bounds.inflation(q)
    highest = bounds.ca2fl_limit(setting, server_lr, delay, age, inflation)
    rate, at = rate_held(client_lr, highest)
    terms = bounds.ca2fl_bound(setting, rate, server_lr, delay, age, rounds, inflation)
    orders = bounds.ca2fl_orders(setting, delay, age, rounds, inflation)
    without = bounds.fedbuff_orders(setting, delay, rounds)
    quantised = (
        StatedQuantity("noise, times what quantising adds", inflation, UPPER, f"{WANG}, C.3, corrected"),
    )
    return (
        *_bound(highest, f"{rounds} steps{at}", terms.total, terms.stale, where),
        *(quantised if q else ()),
        *_preset(setting, rounds, orders.total, "Cor. C.4" if q else "Cor. B.8"),
        StatedQuantity(
            "term removed by the cache, K tau² sigma_g² / T", without.stale_spread, ORDER, f"{WANG}, (B.2)"
        ),
        StatedQuantity(
            "term added by the cache, zeta² (N-M)² sigma² / (T N²)", orders.cache, ORDER, f"{WANG}, (B.4)"
        ),
    )


def _bound(highest: float, after: str, total: float, stale: float, where: str) -> tuple[StatedQuantity, ...]:
    return (
        StatedQuantity("client_lr up to which the bound holds", highest, SUFFICIENT, where),
        StatedQuantity(f"mean squared gradient after {after}", total, UPPER, where),
        StatedQuantity("of which staleness terms", stale, UPPER, where),
    )


def _preset(setting: Setting, rounds: int, total: float, source: str) -> tuple[StatedQuantity, ...]:
    client_lr, server_lr = bounds.preset(setting, rounds)
    return (
        StatedQuantity("client_lr with the best rate", client_lr, ORDER, f"{WANG}, {source}"),
        StatedQuantity("server_lr with the best rate", server_lr, ORDER, f"{WANG}, {source}"),
        StatedQuantity("rate at these", total, ORDER, f"{WANG}, {source}"),
    )


def _arrivals(setting: Setting, shares: tuple[float, ...] | None, cached: bool) -> tuple[StatedQuantity, ...]:
    if cached or shares is None:
        return ()
    left = skewed_arrival(shares) * setting.spread
    return (StatedQuantity("error floor from unequal arrivals", left, UPPER, "N sum (a_i - 1/N)² sigma_g²"),)
