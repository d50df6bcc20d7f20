"""The rule: what it takes, and how it prints."""

import numpy as np
import pytest

from fedpace.algorithm import Algorithm
from fedpace.errors import ConfigError
from fedpace.local import SGD
from fedpace.privacy import AdaptiveClip, ClientDP


@pytest.mark.parametrize(
    "wrong",
    [
        dict(clip=0.0),
        dict(clip=float("inf")),
        dict(noise_multiplier=0.0),
        dict(noise_multiplier=float("nan")),
        dict(delta=0.0),
        dict(delta=1.0),
        dict(epsilon=0.0),
        dict(adaptive="median"),
        dict(adaptive=1.5),
        dict(contributions=0),
        dict(contributions=2.5),
        dict(mechanism="laplace"),
        dict(sample_limit=0),
        dict(tree_steps=0),
        dict(mechanism="tree", adaptive=0.5),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_when_the_rule_is_made(wrong):
    with pytest.raises(ConfigError, match=r"ClientDP|AdaptiveClip"):
        ClientDP(**wrong)


def test_the_rule_prints_as_it_is_written():
    rule = ClientDP(clip=np.float32(0.5), epsilon=8, adaptive=0.5)
    assert rule == ClientDP(0.5, 1.0, 1e-5, 8, AdaptiveClip(0.5))
    assert eval(repr(rule)) == rule and "tree_steps" not in repr(rule)
    assert eval(repr(ClientDP(mechanism="tree", tree_steps=8))).tree_steps == 8


def test_an_algorithm_prints_its_privacy_only_where_it_has_some():
    plain = Algorithm(local=SGD(0.1, steps=1))
    assert "privacy" not in repr(plain)
    assert "privacy=ClientDP(clip=1.0" in repr(Algorithm(local=SGD(0.1, steps=1), privacy=ClientDP()))


def test_privacy_must_be_its_rule():
    with pytest.raises(ConfigError, match="a fedpace.privacy.ClientDP"):
        Algorithm(local=SGD(0.1, steps=1), privacy=1.0)
