"""What is looked at, how it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedpace.errors import FedpaceError
from fedpace.untrusted import visible

GOOD, WARNING, FAILED, SKIPPED = "ok", "warning", "failed", "skipped"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One part. `advice`: what to do, where something is to be done."""

    part: str
    state: str  # ok | warning | failed | skipped
    text: str
    advice: str = ""

    def line(self) -> str:
        said = f"{self.state:<8} {self.part:<13} {self.text}" + (f": {self.advice}" if self.advice else "")
        return visible(said)


def good(part: str, text: str) -> Diagnosis:
    return Diagnosis(part, GOOD, text)


def checked(part: str, check: Callable[[], Diagnosis], advice: str) -> Diagnosis:
    """The diagnosis; whatever stops the check is one, too, since it would stop the run."""
    try:
        return check()
    except (FedpaceError, OSError) as error:
        return Diagnosis(part, FAILED, str(error), advice)
    except Exception as error:  # of the owner's own code
        return Diagnosis(part, FAILED, f"{type(error).__name__}: {error}", advice)
