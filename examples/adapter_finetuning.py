"""Federated fine-tuning of the adapters of a small transformer; all other weights stay frozen.

    python examples/adapter_finetuning.py

A transformer is first trained centrally on a task with plenty of data: which of four groups do most of
the tokens of a sequence belong to? It is pretrained here, nothing is downloaded. Then its layers are
frozen, each gets an adapter (Houlsby et al., arXiv:1902.00751), and eight clients train it on another
grouping of the tokens, each with sequences of two classes only. Only adapters and head are communicated.
Takes about ten seconds.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import fedpace

TOKENS, LENGTH, GROUPS, WIDTH = 32, 16, 4, 48


class Adapter(nn.Module):
    """A bottleneck of two layers with a residual connection; it starts as the identity."""

    def __init__(self, width: int, narrow: int = 8):
        super().__init__()
        self.down, self.up = nn.Linear(width, narrow), nn.Linear(narrow, width)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.up(F.gelu(self.down(x)))


class Layer(nn.Module):
    """Self-attention and a feed-forward network; `adapter` is the identity until it is set."""

    def __init__(self, width: int):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.adapter: nn.Module = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return self.adapter(x + self.think(self.norm2(x)))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.Sequential(Layer(WIDTH), Layer(WIDTH))
        self.head = nn.Linear(WIDTH, GROUPS)

    def forward(self, sequence: Tensor) -> Tensor:
        return self.head(self.layers(self.tokens(sequence)).mean(1))


def sequences(count: int, grouping: str, seed: int) -> tuple[Tensor, Tensor]:
    """Sequences in which one group has at least half of the tokens, and which it is."""
    generator = torch.Generator().manual_seed(seed)
    answer = torch.randint(GROUPS, (count,), generator=generator)
    member = torch.randint(TOKENS // GROUPS, (count, LENGTH), generator=generator)
    tokens = torch.randint(TOKENS, (count, LENGTH), generator=generator)
    inside = torch.rand(count, LENGTH, generator=generator) < 0.5
    chosen = (
        answer[:, None] * (TOKENS // GROUPS) + member
        if grouping == "old"
        else member * GROUPS + answer[:, None]
    )
    return torch.where(inside, chosen, tokens), answer


def pretrained() -> Transformer:
    """The model after a few hundred steps on the old grouping."""
    torch.manual_seed(0)
    model, (x, y) = Transformer(), sequences(6400, "old", seed=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for at in range(0, len(y), 32):
        optimizer.zero_grad()
        F.cross_entropy(model(x[at : at + 32]), y[at : at + 32]).backward()
        optimizer.step()
    return model


def with_adapters(model: Transformer) -> Transformer:
    """Everything frozen but the head and new adapters."""
    model.requires_grad_(False)
    for layer in model.layers:
        layer.adapter = Adapter(WIDTH)
    model.head.requires_grad_(True)
    return model


def client_data(client: int) -> TensorDataset:
    """Sequences of the new grouping with two of the four answers."""
    x, y = sequences(400, "new", seed=100 + client)
    held = (y == client % GROUPS) | (y == (client + 1) % GROUPS)
    return TensorDataset(x[held], y[held])


def accuracy(model: nn.Module, grouping: str) -> float:
    x, y = sequences(2000, grouping, seed=2)
    with torch.no_grad():
        return float((model.eval()(x).argmax(1) == y).double().mean())


def main() -> None:
    torch.set_num_threads(1)  # the model is small: threads cost more than they gain
    model = pretrained()
    print(f"old grouping, after central training: accuracy {accuracy(model, 'old'):.2f}")
    model = with_adapters(model.train())
    test = TensorDataset(*sequences(1000, "new", seed=3))
    task = fedpace.tasks.from_torch(model, F.cross_entropy, [client_data(k) for k in range(8)], test)
    everything = sum(p.numel() for p in model.parameters())
    print(f"new grouping, before: accuracy {task.evaluate(task.initial(0))['accuracy']:.2f}")
    print(f"communicated: {task.layout.size:,} of {everything:,} parameters")

    algorithm = fedpace.algorithms.fedadam(
        client_lr=0.5, steps=5, batch_size=32, clients_per_round=4, server_lr=0.01
    )
    run = fedpace.simulate(algorithm, task, rounds=60, evaluate_every=20)
    for record in run.history:
        if record.metrics:
            print(f"step {record.version:3d}   accuracy {record.metrics['accuracy']:.2f}")


if __name__ == "__main__":
    main()
