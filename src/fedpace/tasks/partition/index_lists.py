"""Partitions that somebody else made: the samples of each client by number."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedpace.errors import ConfigError, require
from fedpace.tasks.partition.rule import Indices
from fedpace.untrusted import brief, read_regular

LIMIT_BYTES = 1 << 28  # of a file
SUFFIX = ".json"


@dataclass(frozen=True, slots=True, repr=False)
class IndexLists:
    """The samples of client k are those whose numbers `parts[k]` has; each is at one client at most."""

    parts: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, lists: Iterable[Iterable[int]], what: str = "partition") -> IndexLists:
        """From any nested sequences of whole numbers."""
        try:
            return cls(tuple(tuple(map(_index, part)) for part in lists))
        except (TypeError, ValueError):
            allowed = "a rule, text such as 'dirichlet:0.3', or the numbers of samples, one list per client"
            raise ConfigError(f"{what} must be {allowed}; got {brief(lists)}") from None

    @property
    def clients(self) -> int:
        return len(self.parts)

    def split(
        self, labels: Indices, groups: Indices | None, clients: int, rng: np.random.Generator
    ) -> list[Indices]:
        require(clients == self.clients, "clients", clients, f"{self.clients}, as many as the partition has")
        parts = [np.array(sorted(part), np.int64) for part in self.parts]
        empty = next((client for client, part in enumerate(parts) if not len(part)), None)
        require(empty is None, f"samples of client {empty}", 0, "at least one")
        whole = np.concatenate(parts)
        good = whole.min() >= 0 and whole.max() < len(labels)
        wrong = int(whole.min() if whole.min() < 0 else whole.max())
        require(bool(good), "numbers of samples in the partition", wrong, f"in 0..{len(labels) - 1}")
        found, counts = np.unique(whole, return_counts=True)
        twice = found[counts > 1]
        require(not len(twice), "samples of the partition", [int(k) for k in twice[:5]], "at one client each")
        return parts

    def __repr__(self) -> str:
        text = json.dumps(self.parts).encode()
        samples = sum(map(len, self.parts))
        digest = hashlib.sha256(text).hexdigest()[:16]
        return f"<index lists of {self.clients} clients, {samples} samples, sha256 {digest}>"


@dataclass(frozen=True, slots=True)
class IndexFile:
    """Index lists in a JSON file: [[0, 5], [1, 2]], or {"a": [0, 5], "b": [1, 2]} in the order of the file."""

    path: str
    sha256: str

    @classmethod
    def at(cls, path: str | Path) -> IndexFile:
        """The file as it is now."""
        whole = Path(path).resolve()
        return cls(str(whole), hashlib.sha256(_content(whole)).hexdigest()[:16])

    def lists(self) -> IndexLists:
        """Those in the file; ConfigError if it has changed, or is of another kind."""
        content = _content(Path(self.path))
        same = hashlib.sha256(content).hexdigest()[:16] == self.sha256
        require(same, f"partition {self.path}", "another content", f"as it was, sha256 {self.sha256}")
        return lists_in(content, self.path)

    @property
    def clients(self) -> int:
        return self.lists().clients

    def split(
        self, labels: Indices, groups: Indices | None, clients: int, rng: np.random.Generator
    ) -> list[Indices]:
        return self.lists().split(labels, groups, clients, rng)


def lists_in(content: bytes, what: str) -> IndexLists:
    """The index lists of a JSON file."""
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"partition {what} must be JSON ({brief(str(error))})") from None
    parts = list(found.values()) if isinstance(found, dict) else found
    good = isinstance(parts, list) and bool(parts) and all(isinstance(part, list) for part in parts)
    require(good, f"partition {what}", found, "one list of numbers per client")
    return IndexLists.of(parts, f"partition {what}")


def is_lists(value: object) -> bool:
    """Whether it is a sequence of sequences, and no rule and no text."""
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)


def _index(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or abs(int(value)) > 2**62:
        raise TypeError("no number of a sample")
    return int(value)


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, LIMIT_BYTES)
    except OSError as error:
        raise ConfigError(f"partition {path} cannot be read ({error.strerror})") from None
