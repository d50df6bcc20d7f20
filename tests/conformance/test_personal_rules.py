"""Every rule of personalisation keeps its promises; broken ones do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedpace.check import all as check_all
from fedpace.check import check_personal
from fedpace.local import SGD, Ditto, DynamicTerm, Private

PERSONAL = [
    Private("head.*"),
    Private(("batch-norm", "last-layer"), SGD(0.1, steps=2)),
    Ditto(0.5),
    Ditto(0.5, SGD(0.1, steps=1)),
    DynamicTerm(),
]


@pytest.mark.parametrize("rule", PERSONAL, ids=repr)
def test_rules_of_personalisation(rule: Any) -> None:
    check_personal(rule)
    found = check_all(rule)
    assert found.ok and (found.kind, found.place) == ("rule of personalisation", "personal")


class SendsItsHead(Private):
    def train(self, request: Any, parts: Any, initial: Any, solve: Any) -> Any:
        delta, kept = super().train(request, parts, initial, solve)
        return np.concatenate([delta, kept]), kept


class KeepsNothing(Private):
    def train(self, request: Any, parts: Any, initial: Any, solve: Any) -> Any:
        delta, kept = super().train(request, parts, initial, solve)
        return delta, kept[:0]


class HalfAModel(Private):
    def model(self, x: Any, memory: Any, parts: Any, initial: Any) -> Any:
        return x


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (SendsItsHead, "an update has 7 entries, not 5"),
        (KeepsNothing, "a memory has 0 entries, not 2 as it says"),
        (HalfAModel, "a client's model has 5 entries of 7"),
    ],
)
def test_broken_rules_of_personalisation_are_caught(broken: type[Private], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_personal(broken("head.*"))
