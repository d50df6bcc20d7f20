"""Handwritten digits, 8x8: the data set that ships inside scikit-learn."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

from fedpace.errors import ConfigError
from fedpace.random import stream
from fedpace.tasks.datasets.data import Data
from fedpace.tasks.fingerprint import sha256

TEST = 360  # of 1,797: one fifth
SHA256 = "c02b30ee492c968587fe3d07cc2fcb7595d31cda9e657d64ea5273d8c18fa896"


def digits() -> Data:
    """1,437 training and 360 test images, pixels 0..16, split by a fixed shuffle."""
    rows = np.loadtxt(_file(), np.uint8, delimiter=",")
    images, labels = np.ascontiguousarray(rows[:, :-1]).reshape(-1, 8, 8), np.ascontiguousarray(rows[:, -1])
    if (found := sha256(images, labels)) != SHA256:
        raise ConfigError(f"digits of scikit-learn must have sha256 {SHA256}; got {found}")
    order = stream(0, "data").permutation(len(labels))
    x, y = images[order], labels[order]
    return Data("digits", x[TEST:], y[TEST:], x[:TEST], y[:TEST], classes=10)


def _file() -> Path:
    """The file itself: importing scikit-learn to read it would take longer than a small run."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise ConfigError(
            "digits must be read from scikit-learn, which is not installed; pip install scikit-learn"
        )
    return Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
