from __future__ import annotations

import numpy as np
import pytest

from fedpace.server.versions import Versions


def with_models(count: int, keeps: int = 1) -> Versions:
    versions = Versions(keeps=keeps)
    for version in range(count):
        versions.add(version, np.full(1, float(version)))
    return versions


def test_only_the_newest_is_kept_if_nobody_holds_the_others() -> None:
    assert sorted(with_models(4).models) == [3]
    assert sorted(with_models(5, keeps=3).models) == [2, 3, 4]


def test_a_held_version_stays_until_the_last_holder_lets_go() -> None:
    versions = Versions()
    versions.add(0, np.zeros(1))
    versions.hold(0)
    versions.hold(0)
    versions.add(1, np.ones(1))
    versions.release(0)
    assert sorted(versions.models) == [0, 1]
    versions.release(0)
    assert sorted(versions.models) == [1] and versions.holders == {}


def test_letting_go_of_the_newest_keeps_it() -> None:
    versions = with_models(2)
    assert versions.hold(1)[0] == 1.0
    versions.release(1)
    assert versions[1][0] == 1.0


def test_a_model_that_only_its_client_holds_is_no_version() -> None:
    versions = with_models(1)
    versions.release(-1)
    assert sorted(versions.models) == [0]


def test_what_nobody_holds_cannot_be_released() -> None:
    with pytest.raises(KeyError):
        with_models(1).release(0)
