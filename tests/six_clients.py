"""Every named algorithm with parameters that fit six clients, and six quadratics for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from fedpace import Algorithm, algorithms
from fedpace.tasks import quadratics

CLIENTS = 6
TASK = quadratics(np.arange(18.0).reshape(CLIENTS, 3) / 16, weights=[1, 2, 3, 4, 5, 6])
SIZES: dict[str, Any] = {
    "clients_per_round": 3,
    "buffer": 2,
    "concurrency": 4,
    "draws": 3,
    "steps": 4,
    "client_lr": 0.1,
    "server_lr": 0.1,
    "codec": "topk:1/3",
    "down_codec": "topk:2/3",
    "rounds": 12,
    "server_period": 1.5,
}
ONE_BY_ONE: dict[str, dict[str, Any]] = {
    "multistage_fedgm": {"server_lr": (0.2, 0.1)},
    "autonomous_fedgm": {"history": 3},
    "fednova": {"steps": [1, 2, 3, 4, 5, 6]},
    "mf_ca2fl": {"cache_bits": 4},
}


def made(name: str, **more: Any) -> Algorithm:
    """The algorithm of that name; `more` for the parameters it has, and what it lacks is left out."""
    make = getattr(algorithms, name)
    chosen = SIZES | ONE_BY_ONE.get(name, {}) | more
    return make(**{key: value for key, value in chosen.items() if key in inspect.signature(make).parameters})


def variants(made: Callable[..., Algorithm]) -> dict[str, Algorithm]:
    """All of them, and those whose messages differ from their defaults'."""
    return {name: made(name) for name in algorithms.__all__} | {
        "two_way, ef21": made("two_way", memory="ef21", tau=0.5),
        "fednlaca, quantised": made("fednlaca", codec="quant:3", tau=0.9),
        "fedbuff, immediate": made("fedbuff", dispatch="immediate"),
        "autonomous_fedgm, event-driven": made("autonomous_fedgm", history=None),
        "defedavg_iid, reuse": made("defedavg_iid", reuse_model=True),
        "defedavg_iid, distinct": made("defedavg_iid", distinct=True),
        "defedavg_niid, saving": made("defedavg_niid", energy_saving=True),
    }
