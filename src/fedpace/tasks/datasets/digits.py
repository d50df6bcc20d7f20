"""Handwritten digits, 8x8: the data set that ships inside scikit-learn."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from fedpace.random import stream
from fedpace.tasks.datasets.data import Data

TEST = 360  # of 1,797: one fifth


def digits() -> Data:
    """1,437 training and 360 test images, pixels 0..16, split by a fixed shuffle."""
    images, labels = load_digits(return_X_y=True)
    order = stream(0, "data").permutation(len(labels))
    x, y = images.reshape(-1, 8, 8).astype(np.uint8)[order], labels.astype(np.uint8)[order]
    return Data("digits", x[TEST:], y[TEST:], x[:TEST], y[:TEST], classes=10)
