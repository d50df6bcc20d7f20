"""Partitions of a data set over clients: rules, and their short names for the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fedpace.errors import ConfigError, nearest, require, suggested
from fedpace.tasks.partition.dirichlet import Dirichlet, DirichletByClient
from fedpace.tasks.partition.held_back import hold_back
from fedpace.tasks.partition.iid import IID, Quantity
from fedpace.tasks.partition.index_lists import SUFFIX, IndexFile, IndexLists, is_lists
from fedpace.tasks.partition.natural import Natural
from fedpace.tasks.partition.rule import SIZES, Partition
from fedpace.tasks.partition.shards import Classes, Shards
from fedpace.untrusted import brief, visible

__all__ = [
    "IID",
    "PARTITIONS",
    "Classes",
    "Dirichlet",
    "DirichletByClient",
    "IndexFile",
    "IndexLists",
    "Natural",
    "Partition",
    "Quantity",
    "Shards",
    "hold_back",
    "partition",
]

PARTITIONS = {
    "iid": "samples at random, equal sizes; iid:unbalanced for log-normal sizes",
    "dirichlet:ALPHA": "shares of each class ~ Dirichlet(ALPHA); dirichlet:ALPHA,min=10 for a minimum size",
    "dirichlet:ALPHA,balanced": "class mixture of each client ~ Dirichlet(ALPHA); or ...,unbalanced",
    "classes:K": "K classes per client, every class with equally many clients (DeFedAvg: classes:2)",
    "shards:S": "sorted by label and cut into shards, S per client; shards:S,unbalanced",
    "quantity:ALPHA": "shares of the data ~ Dirichlet(ALPHA), classes at random; quantity:ALPHA,min=10",
    "natural": "the data's own split: by speaking role (shakespeare), by device (synthetic), by file (folder:PATH)",
    "FILE.json": "sample indices of each client: [[0, 5], [1, 2]]",
}


def partition(text: str | Partition | Sequence[Sequence[int]]) -> Partition:
    """The rule that `text` names (`dirichlet:0.3,min=10`, `split.json`); a rule is returned as it is.

    Lists of numbers are the samples of each client.
    """
    if not isinstance(text, str):
        if is_lists(text):
            return IndexLists.of(text)  # type: ignore[arg-type]
        require(hasattr(text, "split"), "partition", text, "a rule, or text such as 'dirichlet:0.3'")
        return text  # type: ignore[return-value]
    if text.endswith(SUFFIX):
        return IndexFile.at(text)
    name, _, rest = text.partition(":")
    if name not in _MAKERS:
        near = nearest(name, _MAKERS)
        meant = visible(text.replace(name, near, 1)) if near else ""
        said = f"partition must be one of {', '.join(PARTITIONS)}; got {brief(text)}"
        raise ConfigError(suggested(meant, said))
    words = [word.strip() for word in rest.split(",")] if rest else []
    try:
        return _MAKERS[name](words)
    except ConfigError:
        raise
    except ValueError:
        allowed = " or ".join(form for form in PARTITIONS if form.split(":")[0] == name)
        raise ConfigError(f"partition must look like {allowed}; got {brief(text)}") from None


def _iid(words: list[str]) -> Partition:
    return IID(**_options(words, "sizes"))


def _dirichlet(words: list[str]) -> Partition:
    alpha = float(_first(words))
    options = _options(words[1:], "sizes", "min")
    if "sizes" not in options:
        return Dirichlet(alpha, **options)
    if "minimum" in options:
        raise ValueError("a minimum size belongs to sizes that are drawn")
    return DirichletByClient(alpha, **options)


def _shards(words: list[str]) -> Partition:
    return Shards(int(_first(words)), **_options(words[1:], "sizes"))


def _classes(words: list[str]) -> Partition:
    return Classes(int(_first(words)), **_options(words[1:], "sizes"))


def _quantity(words: list[str]) -> Partition:
    return Quantity(float(_first(words)), **_options(words[1:], "min"))


def _natural(words: list[str]) -> Partition:
    return Natural(**_options(words))


_MAKERS: dict[str, Callable[[list[str]], Partition]] = {
    "iid": _iid,
    "dirichlet": _dirichlet,
    "classes": _classes,
    "shards": _shards,
    "quantity": _quantity,
    "natural": _natural,
}


def _first(words: list[str]) -> str:
    if not words:
        raise ValueError("a number is missing")
    return words[0]


def _options(words: list[str], *allowed: str) -> dict[str, Any]:
    """`balanced`, `unbalanced` and `min=10` as fields of a rule."""
    options: dict[str, Any] = {}
    for word in words:
        if word in SIZES and "sizes" in allowed:
            options["sizes"] = word
        elif word.startswith("min=") and "min" in allowed:
            options["minimum"] = int(word.removeprefix("min="))
        else:
            raise ValueError(f"{word} is not an option of this rule")
    return options
