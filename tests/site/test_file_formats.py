"""The page of file formats names every key, column and kind that the code has."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

import fedpace
from fedpace import algorithms, reproduce
from fedpace.deploy.expectations import Patience
from fedpace.deploy.inputs import InputKind
from fedpace.deploy.journal.disk_journal import JournalLimits
from fedpace.deploy.projects import settings
from fedpace.record.store import checkpoint, tables

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "file-formats.md").read_text()


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def named(text: str) -> set[str]:
    return set(re.findall(r"`([\w.]+)`", text))


def test_every_key_of_run_toml() -> None:
    keys = {key for shape in settings._SHAPES.values() for key in shape}
    assert keys - named(section("run.toml")) == set()
    assert {f"[{table}]" for table in settings._SHAPES} <= set(re.findall(r"`(\[\w+\])`", PAGE))


@pytest.mark.parametrize(("table", "kind"), [("journal", JournalLimits), ("patience", Patience)])
def test_the_keys_of_a_table_are_the_fields_it_fills(table: str, kind: type) -> None:
    assert set(settings._SHAPES[table]) == {field.name for field in fields(kind)}


def test_a_run_toml_with_limits_of_the_journal_is_read(tmp_path: Path) -> None:
    run = '[run]\nalgorithm = "fedavg"\nclients = 2\nrounds = 1\n'
    text = f'{run}[journal]\nmode = "recover"\nevery_s = 5\nmax_bytes = 9\n'
    (tmp_path / "run.toml").write_text(text)
    assert settings.read_settings(tmp_path).journal == JournalLimits(mode="recover", every_s=5, max_bytes=9)


def test_every_column_of_the_run_store() -> None:
    columns = {column.name for table in tables.METADATA.tables.values() for column in table.columns}
    assert columns - named(section("The run store")) == set()
    assert f"`schema`, now {tables.SCHEMA}" in PAGE and f"`format` (now\n{checkpoint.FORMAT})" in PAGE


def test_every_key_of_the_history() -> None:
    task = fedpace.tasks.quadratics([1.0, 2.0])
    run = fedpace.simulate(algorithms.fedavg(client_lr=0.1, steps=1, batch_size=None), task, rounds=1)
    written = json.loads(run.to_json(named=True))
    (step,) = written["history"]
    assert {*written, *step} - named(section("History as JSON")) == set()


def test_every_kind_of_input_of_the_journal() -> None:
    kinds = re.findall(r"^\| (\d) ([A-Z]+) \|", section("The journal of a deployment"), re.MULTILINE)
    assert [(int(number), name) for number, name in kinds] == [(kind.value, kind.name) for kind in InputKind]


def test_every_key_of_a_verdict() -> None:
    files = [ROOT / "docs" / "results" / name / "verdicts.json" for name in reproduce.NAMES]
    pages = [json.loads(file.read_text()) for file in files if file.exists()]
    keys = {key for page in pages for findings in page.values() for finding in findings for key in finding}
    assert keys - named(section("Results of reproductions")) == set()
