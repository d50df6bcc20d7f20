"""The examples in docstrings give what they say, and the names people type most have one."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from reference.sources import files, find

EXAMPLES = [module for module, file in files().items() if "\n    >>> " in file.read_text(encoding="utf-8")]
TYPED_MOST = {
    "fedpace": ("Algorithm", "Run", "cite", "compare", "simulate", "sweep"),
    "fedpace.algorithms": ("ca2fl", "defedavg_niid", "fedavg", "fedbuff", "fedgm", "fednova", "two_way"),
    "fedpace.aggregate": ("TrimmedMean",),
    "fedpace.link": ("Quantize", "TopK"),
    "fedpace.server_opt": ("Adam", "Momentum"),
    "fedpace.sim": ("Population",),
    "fedpace.statistics": ("holm", "paired"),
    "fedpace.tasks": ("from_torch", "load", "quadratics"),
    "fedpace.tasks.partition": ("Dirichlet",),
    "fedpace.theory": ("chi_squared", "stability_limit"),
}


@pytest.mark.parametrize("module", EXAMPLES)
def test_examples(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(module), globs={})
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module in TYPED_MOST for name in TYPED_MOST[module]]
)
def test_names_that_are_typed_most_have_an_example(module: str, name: str) -> None:
    found = find(module, name)
    text = files()[found.module].read_text(encoding="utf-8").splitlines()
    lines = text[found.node.lineno - 1 : found.node.end_lineno]  # type: ignore[union-attr]
    assert any(line.startswith("    >>> ") for line in lines)
