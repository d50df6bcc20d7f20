"""Pathological label skew: few classes per client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpace.errors import ConfigError, require, require_count
from fedpace.tasks.partition.html import ShownByExample
from fedpace.tasks.partition.rule import SIZES, Indices, apportion, deal, draw_sizes, require_enough


@dataclass(frozen=True, slots=True)
class FewClasses(ShownByExample):
    """So many shards or classes for each client."""

    per_client: int
    sizes: str = "balanced"

    def __post_init__(self) -> None:
        name = type(self).__name__
        require_count(self.per_client, f"{name}.per_client")
        require(self.sizes in SIZES, f"{name}.sizes", self.sizes, "balanced or unbalanced")


@dataclass(frozen=True, slots=True)
class Shards(FewClasses):
    """Samples sorted by label and cut into shards; every client gets `per_client` of them at random.

    McMahan et al., arXiv:1602.05629: 200 shards of 300 MNIST images, 2 per client. With `unbalanced` the
    shards of a client are as long as its log-normal size asks for.
    """

    def split(
        self, labels: Indices, groups: Indices | None, clients: int, rng: np.random.Generator
    ) -> list[Indices]:
        require_enough(len(labels), clients, self.per_client)
        sizes = draw_sizes(self.sizes, len(labels), clients, rng, minimum=self.per_client)
        lengths = np.concatenate([apportion(np.ones(self.per_client), int(n)) for n in sizes])
        owners = np.repeat(np.arange(clients), self.per_client)
        order = rng.permutation(len(lengths))
        shards = np.split(_by_label(labels, rng), np.cumsum(lengths[order])[:-1])
        return [
            np.sort(np.concatenate([shards[k] for k in np.flatnonzero(owners[order] == client)]))
            for client in range(clients)
        ]


@dataclass(frozen=True, slots=True)
class Classes(FewClasses):
    """Every client holds `per_client` distinct classes, every class is held by equally many clients.

    The split of the DeFedAvg experiments with per_client = 2. Each class is cut into equal random parts
    (`unbalanced`: log-normal ones), one for each client that holds it.
    """

    def split(
        self, labels: Indices, groups: Indices | None, clients: int, rng: np.random.Generator
    ) -> list[Indices]:
        totals = np.bincount(labels)
        require(
            self.per_client <= len(totals),
            "Classes.per_client",
            self.per_client,
            f"<= {len(totals)} (the number of classes)",
        )
        held = assign(len(totals), clients, self.per_client, rng)
        counts = np.zeros((len(totals), clients), np.int64)
        for kind, total in enumerate(totals):
            holders = np.flatnonzero(held[kind])
            _require_holders(kind, int(total), len(holders))
            counts[kind, holders] = draw_sizes(self.sizes, int(total), len(holders), rng)
        return deal(labels, counts, rng)


def assign(classes: int, clients: int, per_client: int, rng: np.random.Generator) -> Indices:
    """A random 0/1 matrix (classes, clients): columns sum to `per_client`, rows differ by at most one.

    Each client takes the classes that were taken least so far, ties at random.
    """
    held = np.zeros((classes, clients), np.int64)
    for client in rng.permutation(clients):
        taken = held.sum(axis=1)
        order = np.lexsort((rng.permutation(classes), taken))
        held[order[:per_client], client] = 1
    return held


def _require_holders(kind: int, samples: int, holders: int) -> None:
    if holders == 0:
        raise ConfigError(
            f"clients times classes per client must reach every class; class {kind} has no client"
        )
    if samples < holders:
        raise ConfigError(f"class {kind} must have a sample for each of its {holders} clients; got {samples}")


def _by_label(labels: Indices, rng: np.random.Generator) -> Indices:
    """Sample numbers sorted by label, in random order within a label."""
    shuffled = rng.permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]
