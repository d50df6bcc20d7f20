"""The plan of a run: the algorithm as text, which travels in place of code.

`repr(algorithm)` names rules and numbers. A client reads it with an evaluator that calls the constructors of those
rules, and of rules of one's own that its owner has imported, and nothing else. The digest of the text is in every
message, so that two ends with different plans never train together; an owner may pin it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from fedpace.algorithm import Algorithm
from fedpace.errors import ConfigError, require
from fedpace.expressions import evaluate, parsed, rule_classes
from fedpace.limits import Limits
from fedpace.link import CompressedModel, Lazy

LONGEST = 100_000  # characters of a plan


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What all clients of a run must agree on."""

    algorithm: Algorithm
    text: str

    @classmethod
    def of(cls, algorithm: Algorithm, own: Mapping[str, Callable[..., Any]] | None = None) -> RunPlan:
        """The plan of an algorithm; ConfigError if it cannot be deployed, or read back from its text."""
        refuse_literal(algorithm)
        plan = cls.read(repr(algorithm), own)
        same = plan.algorithm == algorithm
        require(same, "algorithm", repr(algorithm), "one whose text reads back as the same value")
        return plan

    @classmethod
    def read(cls, text: str, own: Mapping[str, Callable[..., Any]] | None = None) -> RunPlan:
        """The plan that a server sent. `own`: further rules that may occur in it, by name."""
        require(len(text) <= LONGEST, "a plan", len(text), f"of at most {LONGEST} characters")
        names: dict[str, Callable[..., Any]] = {
            **rule_classes(),
            "Algorithm": Algorithm,
            "Limits": Limits,
            **(own or {}),
        }
        try:
            algorithm = evaluate(parsed(text), names)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"a plan must be the text of an algorithm; got {text[:80]!r}") from None
        require(isinstance(algorithm, Algorithm), "a plan", text[:80], "the text of an Algorithm")
        refuse_literal(algorithm)
        return cls(algorithm, text)

    @property
    def digest(self) -> bytes:
        return digest(self.text)


def digest(text: str) -> bytes:
    """SHA-256 of a plan's text."""
    return hashlib.sha256(text.encode()).digest()


def refuse_literal(algorithm: Algorithm) -> None:
    """`mode="literal"` uses values that never crossed the link, or loses count of lost frames."""
    for rule in _rules(algorithm):
        require(
            not _is_literal(rule),
            "mode",
            "literal",
            '"realisable", with a max_staleness, on real clients: "literal" exists in simulation only',
        )


def _is_literal(rule: object) -> bool:
    """AA without a bound is the listing's: a value may be added again for ever, and nothing says that it is old."""
    if isinstance(rule, Lazy):
        return rule.reference == "raw" or (rule.rule == "aa" and rule.max_staleness is None)
    return isinstance(rule, CompressedModel) and rule.first == "zero"


def _rules(value: object) -> Iterator[object]:
    """The value and every rule inside it."""
    yield value
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _rules(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _rules(item)
