"""Means over a data set, and how they spread over clients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fedpace.compute.device import Device, host_array
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
def measured(module: nn.Module, objective: Objective, examples: Examples, device: Device) -> dict[str, float]:
    """Loss and means over all samples, and the metrics of the data set as a whole.

    A device is waited for once, and sends outputs only if there are metrics that see them all.
    """
    found: list[tuple[str, Any, int]] = []  # of every batch: name, mean, samples
    done, whole = 0, WholeMetrics(objective.whole)
    for inputs, targets in in_order(examples, BATCH):
        size = min(BATCH, len(examples) - done)
        done += size
        output = objective.call(module, inputs)
        if objective.whole:
            whole.see(device.to_host(objective.scores(output)), device.to_host(targets))
        found += [(name, value, size) for name, value in objective.means(output, targets).items()]
    totals: defaultdict[str, float] = defaultdict(float)
    for (name, _, size), mean in zip(found, device.numbers([mean for _, mean, _ in found]), strict=True):
        totals[name] += mean * size
    return {name: total / len(examples) for name, total in totals.items()} | whole.values()


@torch.no_grad()
def by_stratum(
    module: nn.Module,
    test: Examples,
    strata: npt.NDArray[np.integer],
    held: Sequence[npt.NDArray[np.integer]],
    device: Device,
) -> Vector:
    """Per client, the accuracy in each stratum of the test data, weighted by the strata it holds.

    A client without tested strata gets the accuracy over all test data.
    """
    right = [
        device.to_host(module(inputs).argmax(1) == targets).double().reshape(len(targets), -1).mean(1)
        for inputs, targets in in_order(test, BATCH)
    ]
    count = 1 + max(int(strata.max()), *(int(part.max()) for part in held))
    tested = np.bincount(strata, minlength=count)
    rates = np.bincount(strata, host_array(torch.cat(right)), minlength=count) / np.maximum(tested, 1)
    mixtures = np.stack([np.bincount(part, minlength=count) for part in held]) * (tested > 0)
    mixtures[mixtures.sum(axis=1) == 0] = tested
    accuracy: Vector = mixtures @ rates / mixtures.sum(axis=1)
    return accuracy
