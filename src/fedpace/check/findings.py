"""Which kind of rule a value is, and which promises of its kind it breaks, in one call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedpace.check.aggregators import check_aggregator
from fedpace.check.interface import NEEDS
from fedpace.check.links import check_codec, check_downlink, check_uplink
from fedpace.check.local import check_correction, check_local, check_work
from fedpace.check.optimizers import check_server_opt
from fedpace.check.pace import check_pace
from fedpace.check.personal import check_personal


@dataclass(frozen=True, slots=True)
class RuleKind:
    """A kind of rule: what its rules have, and the function that knows their promises."""

    name: str
    place: str  # the field of Algorithm that takes it
    has: frozenset[str]
    check: Callable[[Any], None]


KINDS = tuple(
    RuleKind(name, place, frozenset(methods.split()), check)
    for name, place, methods, check in (
        ("pacing rule", "pace", " ".join(NEEDS), check_pace),
        ("aggregation rule", "aggregate", "init add result", check_aggregator),
        ("server optimizer", "server_opt", "init apply", check_server_opt),
        ("local rule", "local", "work a_vector a_norm1", check_local),
        ("correction", "correction", "init broadcast before after fold stepped", check_correction),
        ("rule of personalisation", "personal", "parts memory_size beside train model", check_personal),
        ("downlink", "down", "shared init publish send forget seeds seeded receive", check_downlink),
        ("uplink", "up", "init send receive resync", check_uplink),
        ("codec", "up or down", "bind encode decode", check_codec),
        ("local rule without gradient weights", "local", "work max_work batches", check_work),
    )
)  # a downlink has what an uplink has but resync, so it comes first


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found about a rule; printing it says so in sentences."""

    rule: str
    kind: str  # "" if it is none
    place: str  # the field of Algorithm that takes it
    broken: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return bool(self.kind) and not self.broken

    def __str__(self) -> str:
        if self.ok:
            return f"{self.rule} is {_a(self.kind)}, for Algorithm({self.place}=...), and keeps its promises"
        head = f"{self.rule} is {_a(self.kind)}, but" if self.kind else f"{self.rule} is not a rule:"
        return "\n  ".join([head, *self.broken])


def all(rule: Any) -> Findings:
    """What kind of rule this is, and what it breaks. Never raises: what a check or the rule raises is a finding."""
    if inspect.isclass(rule):
        return Findings(rule.__name__, "", "", (f"it is a class; give a value, such as {rule.__name__}()",))
    matching = [kind for kind in KINDS if _lacks(rule, kind) == []]
    if not matching:
        return Findings(_named(rule), "", "", (_nearest(rule),))
    kind = max(matching, key=lambda kind: len(kind.has))
    return Findings(_named(rule), kind.name, kind.place, _broken(rule, kind))


def _broken(rule: Any, kind: RuleKind) -> tuple[str, ...]:
    try:
        kind.check(rule)
    except AssertionError as error:
        return (str(error).strip() or "a promise of its kind does not hold",)
    except Exception as error:
        where = inspect.trace()[-1]
        return (f"{where.function} raised {type(error).__name__}: {error}",)
    return ()


def _lacks(rule: Any, kind: RuleKind) -> list[str]:
    return sorted(name for name in kind.has if not hasattr(rule, name))


def _nearest(rule: Any) -> str:
    """The kind it comes closest to, and what it would need to be one."""
    kind = max(KINDS, key=lambda kind: 1 - len(_lacks(rule, kind)) / len(kind.has))
    lacks = _lacks(rule, kind)
    if len(lacks) == len(kind.has):
        kinds = ", ".join(kind.name for kind in KINDS)
        return f"it has the methods of none of these: {kinds}"
    return f"it comes closest to {_a(kind.name)}, and lacks {', '.join(lacks)}"


def _named(rule: Any) -> str:
    text = repr(rule)
    return text if len(text) <= 80 else type(rule).__name__


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
