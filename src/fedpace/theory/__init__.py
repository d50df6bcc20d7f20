"""The advisor: what the papers can tell before a run, and how far each number can be trusted.

Its parts are imported when first used: an algorithm that only wants its stages does not wait for all of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

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
    "StatedQuantity": "setting",
    "Recommended": "recommend",
    "Section": "setting",
    "Setting": "setting",
    "TwoClients": "inconsistency",
    "Work": "work",
    "advice": "inconsistency",
    "chi_squared": "work",
    "dissimilarity": "inconsistency",
    "final_error": "inconsistency",
    "gradient_error": "inconsistency",
    "mean_age": "averaging",
    "mean_square_limit": "stability",
    "recommended": "recommend",
    "stability_limit": "stability",
    "variance_factor": "averaging",
}

if not TYPE_CHECKING:  # a type checker sees the imports above and reports names that are not among them

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'fedpace.theory' has no attribute {name!r}")
        module = importlib.import_module(f"fedpace.theory.{_HOMES.get(name, name)}")
        found = getattr(module, name) if name in _HOMES else module
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
