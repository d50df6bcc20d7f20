"""The advisor: what the papers can tell before a run, and how far each number can be trusted."""

from fedpace.theory import convert, momentum_bounds, nova_bounds
from fedpace.theory.averaging import mean_age, stability_limit, variance_factor
from fedpace.theory.inconsistency import Work, advice, chi_squared, final_error, gradient_error
from fedpace.theory.multistage import ScheduleWarning, check, multistage, violations, w1

__all__ = [
    "ScheduleWarning",
    "Work",
    "advice",
    "check",
    "chi_squared",
    "convert",
    "final_error",
    "gradient_error",
    "mean_age",
    "momentum_bounds",
    "multistage",
    "nova_bounds",
    "stability_limit",
    "variance_factor",
    "violations",
    "w1",
]
