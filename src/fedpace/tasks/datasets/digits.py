"""Handwritten digits, 8x8: the data set that ships inside scikit-learn."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from fedpace.errors import ConfigError
from fedpace.random import stream
from fedpace.tasks.datasets.data import Data
from fedpace.tasks.fingerprint import sha256

TEST = 360  # of 1,797: one fifth
SHA256 = "c02b30ee492c968587fe3d07cc2fcb7595d31cda9e657d64ea5273d8c18fa896"


def digits() -> Data:
    """1,437 training and 360 test images, pixels 0..16, split by a fixed shuffle."""
    pixels, classes = load_digits(return_X_y=True)
    images, labels = pixels.reshape(-1, 8, 8).astype(np.uint8), classes.astype(np.uint8)
    if (found := sha256(images, labels)) != SHA256:
        raise ConfigError(f"digits of scikit-learn must have sha256 {SHA256}; got {found}")
    order = stream(0, "data").permutation(len(labels))
    x, y = images[order], labels[order]
    return Data("digits", x[TEST:], y[TEST:], x[:TEST], y[:TEST], classes=10)
