"""From stored arrays to the tensors a network takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedpace.tasks.datasets.data import Array
from fedpace.tasks.examples import Batch
from fedpace.tasks.fingerprint import sha256


@dataclass(frozen=True, slots=True)
class Pixels:
    """Bytes scaled to 0..1, then to mean 0 and deviation 1 per channel; channels first."""

    top: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __call__(self, x: Array) -> Tensor:
        images = torch.from_numpy(np.ascontiguousarray(x)).to(torch.float32)
        images = images.permute(0, 3, 1, 2).contiguous() if images.ndim == 4 else images.unsqueeze(1)
        mean, deviation = (torch.tensor(v).view(-1, 1, 1) * self.top for v in (self.mean, self.deviation))
        return images.sub_(mean).div_(deviation)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Features as they are."""

    def __call__(self, x: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(x)).to(torch.float32)


@dataclass(frozen=True, slots=True)
class Codes:
    """Characters by number."""

    def __call__(self, x: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(x)).to(torch.int64)


Encoding = Pixels | Numbers | Codes


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Samples that stay as they are stored until a batch is taken."""

    x: Array
    y: Array
    encoding: Encoding

    def __len__(self) -> int:
        return len(self.y)

    def take(self, positions: npt.NDArray[np.int64]) -> Batch:
        return self.encoding(self.x[positions]), torch.from_numpy(self.y[positions].astype(np.int64))

    def fingerprint(self) -> str:
        return sha256(self.x, self.y)
