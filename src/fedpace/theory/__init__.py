"""The advisor: what the papers can tell before a run, and how far each number can be trusted."""

from fedpace.theory import advisor, convert, momentum_bounds, nova_bounds, picture
from fedpace.theory.averaging import mean_age, stability_limit, variance_factor
from fedpace.theory.figure import Figure
from fedpace.theory.inconsistency import Work, advice, chi_squared, final_error, gradient_error
from fedpace.theory.multistage import ScheduleWarning, check, multistage, violations, w1

__all__ = [
    "Figure",
    "ScheduleWarning",
    "Work",
    "advice",
    "advisor",
    "check",
    "chi_squared",
    "convert",
    "final_error",
    "gradient_error",
    "mean_age",
    "momentum_bounds",
    "multistage",
    "nova_bounds",
    "picture",
    "stability_limit",
    "variance_factor",
    "violations",
    "w1",
]
