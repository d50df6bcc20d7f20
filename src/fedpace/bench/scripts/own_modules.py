"""The modules of W5, W6 and W7 for environments without fedpace: as many parameters as `fedpace.bench.own` has."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class AttentionLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(64), nn.LayerNorm(64)
        self.mix, self.project = nn.Linear(64, 192), nn.Linear(64, 64)
        self.think = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.mix(self.norm1(x)).view(*x.shape[:2], 3, 4, 16).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(x.shape))
        out: Tensor = x + self.think(self.norm2(x))
        return out


class Characters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(80, 64), nn.Embedding(32, 64)
        self.layers = nn.Sequential(AttentionLayer(), AttentionLayer())
        self.norm, self.out = nn.LayerNorm(64), nn.Linear(64, 80)

    def forward(self, codes: Tensor) -> Tensor:
        x = self.characters(codes) + self.places(torch.arange(codes.shape[1]))
        scores: Tensor = self.out(self.norm(self.layers(x)))
        return scores.transpose(1, 2)


class Residual(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(outer // 16, outer), nn.GroupNorm(outer // 16, outer)
        same = inner == outer and stride == 1
        past = nn.Conv2d(inner, outer, 1, stride, bias=False), nn.GroupNorm(outer // 16, outer)
        self.past = nn.Identity() if same else nn.Sequential(*past)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.second(F.relu(self.norm1(self.first(x)))))
        return F.relu(y + self.past(x))


def images() -> nn.Module:
    stem = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.GroupNorm(1, 16), nn.ReLU()
    blocks = Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def tanh() -> nn.Module:
    return nn.Sequential(nn.Linear(30, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))


MODULES: dict[str, Callable[[], nn.Module]] = {"W5": tanh, "W6": Characters, "W7": images}
