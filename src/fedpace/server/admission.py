"""What is checked of an update before anything of it is used: the type and the range of every field.

Nothing here looks at what the server expects, nor into a vector. The order matters: a check that comes first must not
be able to fail on a value that a later one would have refused.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedpace.algorithm import Algorithm
from fedpace.limits import Limits
from fedpace.server.messages import WHOLE_MODEL, Update
from fedpace.server.state import ServerState

FRAMES = {("update",), ("update", "control"), ("control", "update"), ("resync",), ()}
MOST_KNOWN = 4096
LARGEST = 2**53  # whole numbers beyond it are not exact as floats


def is_count(value: object, maximum: float = LARGEST) -> bool:
    """A whole number in 0..maximum; neither True nor a float."""
    if type(value) is int:
        return 0 <= value <= maximum
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return whole and 0 <= value <= maximum  # type: ignore[operator]


def is_amount(value: object, maximum: float) -> bool:
    """A finite number in 0..maximum."""
    if isinstance(value, (float, np.floating)):
        return bool(0.0 <= value <= maximum)
    return is_count(value, maximum)


class Admission:
    """The checks of one run."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.local, self.limits = algorithm.local, algorithm.limits
        self._whole = getattr(algorithm.pace.client, "averaging", None) is not None
        self._sound: set[tuple[int, float, float]] = set()  # work that was looked at before

    def objection(self, update: Update, s: ServerState) -> str:
        """What is wrong with the fields of an update of a known client; "" if nothing is."""
        heard, limits = s.heard.get(update.client, 0), self.limits
        if not is_count(update.session) or not 1 <= update.session <= heard + limits.session_jump:
            return f"session {shown(update.session)} is none of 1..{heard + limits.session_jump}"
        if not is_count(update.round, s.version):
            return f"round {shown(update.round)} is none of 0..{s.version}"
        if not (update.version == WHOLE_MODEL if self._whole else is_count(update.version)):
            return f"version {shown(update.version)} is none this pacing rule works with"
        if not is_count(update.generation, s.generation):
            return f"generation {shown(update.generation)} is none of 0..{s.generation}"
        if not is_amount(update.samples, limits.samples):
            return f"samples {shown(update.samples)} are not in 0..{limits.samples:g}"
        samples = s.samples.get(update.client, float(update.samples))
        return self._wrong_work(update, samples) or wrong_frames(update.frames, s.x.size)

    def _wrong_work(self, update: Update, samples: float) -> str:
        """The same work comes again and again: what was found right is not looked at twice."""
        if type(update.steps) is not int or type(update.a_norm1) is not float:
            return wrong_work(update, self.local, self.limits, samples)
        work = (update.steps, update.a_norm1, samples)
        if work in self._sound:
            return ""
        wrong = wrong_work(update, self.local, self.limits, samples)
        if not wrong and len(self._sound) < MOST_KNOWN:
            self._sound.add(work)
        return wrong


def wrong_work(update: Update, local: Any, limits: Limits, samples: float) -> str:
    """Steps no session could have taken, or gradient weights that do not belong to them."""
    maximum = getattr(local, "max_work", lambda samples: None)(samples)
    maximum = limits.steps if maximum is None else min(maximum, limits.steps)
    if not is_count(update.steps, maximum):
        return f"steps {shown(update.steps)} are not in 0..{maximum}"
    if not is_amount(update.a_norm1, limits.a_norm1):
        return f"a_norm1 {shown(update.a_norm1)} is not in 0..{limits.a_norm1:g}"
    if update.steps and hasattr(local, "a_norm1"):
        weight = local.a_norm1(int(update.steps))
        if not math.isclose(update.a_norm1, weight, rel_tol=1e-6):
            return f"a_norm1 {shown(update.a_norm1)} does not belong to {update.steps} steps"
    return ""


def wrong_frames(frames: object, size: int) -> str:
    """Frames of other names than this protocol's, or longer than any codec makes them."""
    if not isinstance(frames, Mapping) or len(frames) > 2 or tuple(frames) not in FRAMES:
        return f"frames {shown(frames)} are none of update, update and control, resync"
    maximum = 1024 + 16 * size  # sparse frames with every entry and its index in full
    for name, frame in frames.items():
        if not isinstance(frame, bytes) or len(frame) > maximum:
            return f"frame {name} is not of at most {maximum} bytes"
    return ""


def shown(value: Any) -> str:
    """A stranger's value in a message: short, and never its own idea of what it looks like."""
    if type(value) is int and abs(value) >= LARGEST:
        return "too large"
    plain = value if type(value) in (int, float, str, bool, type(None)) else type(value).__name__
    return repr(plain)[:40]
