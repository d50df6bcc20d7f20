"""The advisor: what the papers can tell before a run, and how far each number can be trusted.

Its parts are imported when first used: an algorithm that only wants its stages does not wait for all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedpace.on_demand import importing
from fedpace.theory.multistage import ScheduleWarning, check, multistage, violations, w1

if TYPE_CHECKING:
    from fedpace.theory import (
        advisor,
        buffered_bounds,
        compression,
        convert,
        defedavg_bounds,
        delays,
        estimate,
        momentum_bounds,
        momentum_rates,
        nova_bounds,
        nova_rates,
        picture,
        two_way_bounds,
    )
    from fedpace.theory.averaging import mean_age, variance_factor
    from fedpace.theory.inconsistency import TwoClients, advice, dissimilarity, final_error, gradient_error
    from fedpace.theory.recommend import Recommended, recommended
    from fedpace.theory.setting import Section, Setting, StatedQuantity
    from fedpace.theory.stability import mean_square_limit, stability_limit
    from fedpace.theory.work import Work, chi_squared

__all__ = [
    "Recommended",
    "ScheduleWarning",
    "Section",
    "Setting",
    "StatedQuantity",
    "TwoClients",
    "Work",
    "advice",
    "advisor",
    "buffered_bounds",
    "check",
    "chi_squared",
    "compression",
    "convert",
    "defedavg_bounds",
    "delays",
    "dissimilarity",
    "estimate",
    "final_error",
    "gradient_error",
    "mean_age",
    "mean_square_limit",
    "momentum_bounds",
    "momentum_rates",
    "multistage",
    "nova_bounds",
    "nova_rates",
    "picture",
    "recommended",
    "stability_limit",
    "two_way_bounds",
    "variance_factor",
    "violations",
    "w1",
]

_HOMES = {
    "averaging": ("mean_age", "variance_factor"),
    "inconsistency": ("TwoClients", "advice", "dissimilarity", "final_error", "gradient_error"),
    "recommend": ("Recommended", "recommended"),
    "setting": ("Section", "Setting", "StatedQuantity"),
    "stability": ("mean_square_limit", "stability_limit"),
    "work": ("Work", "chi_squared"),
}

if not TYPE_CHECKING:  # a type checker sees the imports above and reports names that are not among them
    __getattr__, __dir__ = importing(__name__, _HOMES, __all__)
