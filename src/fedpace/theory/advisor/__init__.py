"""The numbers worth knowing before a run, each with its label and its source."""

from fedpace.theory.advisor.buffered import buffered
from fedpace.theory.advisor.guarantee import Guarantee, guarantee
from fedpace.theory.advisor.momentum import StageRow, server_momentum, stage_rows
from fedpace.theory.advisor.nova import bias, normalised
from fedpace.theory.advisor.plan import Plan, advise
from fedpace.theory.advisor.polled import polled
from fedpace.theory.advisor.two_way import two_way

__all__ = [
    "Guarantee",
    "Plan",
    "StageRow",
    "advise",
    "bias",
    "buffered",
    "guarantee",
    "normalised",
    "polled",
    "server_momentum",
    "stage_rows",
    "two_way",
]
