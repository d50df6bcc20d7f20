"""Character models: from codes (N, T) to scores of the next character, (N, alphabet, T)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedpace.errors import require
from fedpace.tasks.networks.dense import Shape


class CharGRU(nn.Module):
    """An embedding, one gated recurrent layer, scores."""

    def __init__(self, alphabet: int, embedding: int, hidden: int):
        super().__init__()
        self.embedding = nn.Embedding(alphabet, embedding)
        self.gru = nn.GRU(embedding, hidden, batch_first=True)
        self.output = nn.Linear(hidden, alphabet)

    def forward(self, codes: Tensor) -> Tensor:
        states, _ = self.gru(self.embedding(codes))
        scores: Tensor = self.output(states)
        return scores.transpose(1, 2)


class Attention(nn.Module):
    """Causal self-attention and a two-layer network, each added to what it reads, normalised first."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        n, t, width = x.shape
        parts = self.mix(self.norm1(x)).view(n, t, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(n, t, width))
        out: Tensor = x + self.think(self.norm2(x))
        return out


class CharTransformer(nn.Module):
    """Embeddings of characters and positions, attention layers, scores."""

    def __init__(self, alphabet: int, length: int, width: int, heads: int, layers: int):
        super().__init__()
        self.characters, self.positions = nn.Embedding(alphabet, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Attention(width, heads) for _ in range(layers)))
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, alphabet)

    def forward(self, codes: Tensor) -> Tensor:
        x = self.characters(codes) + self.positions(torch.arange(codes.shape[1], device=codes.device))
        scores: Tensor = self.output(self.norm(self.layers(x)))
        return scores.transpose(1, 2)


def gru(shape: Shape, classes: int, hidden: int = 128) -> nn.Module:
    """One recurrent layer of 128 units."""
    return CharGRU(classes, 32, hidden)


def transformer(shape: Shape, classes: int, width: int = 64) -> nn.Module:
    """Two causal attention layers of width 64 with four heads."""
    require(width % 4 == 0, "width of a transformer", width, "a multiple of its four heads")
    return CharTransformer(classes, shape[0], width, heads=4, layers=2)
