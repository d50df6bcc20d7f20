"""A run made by hand: every number is chosen, so every total is arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from fedpace.algorithm import Algorithm
from fedpace.local import SGD
from fedpace.record import Run
from fedpace.server_opt import Momentum
from fedpace.sim.observer import Activity, Fate, StepRecord
from fedpace.vector import Layout


@pytest.fixture
def run() -> Run:
    """Three steps, the second not evaluated; two clients, the second is overwritten once and waits once."""
    metrics = [{"loss": 2.0, "accuracy": 0.25}, {}, {"loss": 1.0, "accuracy": 0.5}]
    return Run(
        algorithm=Algorithm(
            local=SGD(lr=0.1, steps=1), server_opt=Momentum(lr=1.0, beta=0.9, nu=0.9), name="fedgm"
        ),
        task="digits",
        seed=7,
        rounds=3,
        history=[
            StepRecord(
                t, 1.5 * t, clients=(0, 1), staleness=(0, 1), bytes_up=100, bytes_down=40, metrics=found
            )
            for t, found in enumerate(metrics, start=1)
        ],
        model=np.arange(6, dtype=np.float32),
        layout=Layout.of({"weight": (2, 2), "bias": (2,)}),
        counters={"sessions": 6, "solved": 5},
        activities=[
            Activity(1, 0.5, 1.0, "train", 0, 1),
            Activity(0, 0.0, 3.0, "train", 0, 1),
            Activity(1, 1.0, 2.0, "train", 1, 2),
            Activity(1, 3.0, 4.0, "upload", 1, 2),
        ],
        fates=[Fate(1, 1, "overwritten"), Fate(1, 2, "consumed", 3)],
    )
