"""Means over a data set, and how they spread over clients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fedpace.compute.device import to_host
from fedpace.tasks.examples import Examples, in_order
from fedpace.tasks.objective import Objective
from fedpace.tasks.whole import WholeMetrics
from fedpace.vector import Vector

BATCH = 500  # fixed, so that the order of additions is
EVALUATION = (  # for `Device.session`: what it is, and what its memory depends on
    f"evaluation, which takes up to {BATCH} samples at a time",
    "--workers or the model's size",
)


@torch.no_grad()
def measured(module: nn.Module, objective: Objective, examples: Examples) -> dict[str, float]:
    """Loss and means over all samples, and the metrics of the data set as a whole."""
    totals: defaultdict[str, float] = defaultdict(float)
    done, whole = 0, WholeMetrics(objective.whole)
    for inputs, targets in in_order(examples, BATCH):
        size = min(BATCH, len(examples) - done)
        done += size
        output = objective.call(module, inputs)
        whole.see(to_host(objective.scores(output)), to_host(targets))
        for name, value in objective.means(output, targets).items():
            totals[name] += value * size
    return {name: total / len(examples) for name, total in totals.items()} | whole.values()


@torch.no_grad()
def by_stratum(
    module: nn.Module,
    test: Examples,
    strata: npt.NDArray[np.integer],
    held: Sequence[npt.NDArray[np.integer]],
) -> Vector:
    """Per client, the accuracy in each stratum of the test data, weighted by the strata it holds.

    A client without tested strata gets the accuracy over all test data.
    """
    right = [
        to_host(module(inputs).argmax(1) == targets).double().reshape(len(targets), -1).mean(1)
        for inputs, targets in in_order(test, BATCH)
    ]
    count = 1 + max(int(strata.max()), *(int(part.max()) for part in held))
    tested = np.bincount(strata, minlength=count)
    rates = np.bincount(strata, torch.cat(right).numpy(), minlength=count) / np.maximum(tested, 1)
    mixtures = np.stack([np.bincount(part, minlength=count) for part in held]) * (tested > 0)
    mixtures[mixtures.sum(axis=1) == 0] = tested
    accuracy: Vector = mixtures @ rates / mixtures.sum(axis=1)
    return accuracy
