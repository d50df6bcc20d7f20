"""scripts/audit: the table of licences."""

from __future__ import annotations

import json
import os
import runpy
from email.message import Message
from importlib.metadata import distributions
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
LICENCES = runpy.run_path(str(SCRIPTS / "_licences.py"))


def about(**fields: str | list[str]) -> Message:
    message = Message()
    for name, values in fields.items():
        for value in [values] if isinstance(values, str) else values:
            message[name.replace("_", "-")] = value
    return message


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"License_Expression": "MIT OR Apache-2.0", "License": "other"}, "MIT OR Apache-2.0"),
        ({"License_Expression": " AND ".join(["BSD-3-Clause"] * 9)}, " AND ".join(["BSD-3-Clause"] * 9)),
        ({"License": "BSD"}, "BSD"),
        ({"License": "UNKNOWN", "Classifier": ["License :: OSI Approved :: MIT License"]}, "MIT License"),
        (
            {"License": "Copyright " * 50, "Classifier": "License :: OSI Approved :: BSD License"},
            "BSD License",
        ),
        ({"License": "Copyright (c) somebody " * 5}, ("Copyright (c) somebody " * 5)[:60]),
        ({"Classifier": ["Topic :: Software"]}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_a_licence_is_what_the_package_says(fields: dict[str, str | list[str]], said: str) -> None:
    assert LICENCES["licence"](about(**fields)) == said


def test_every_installed_package_is_in_the_table_once() -> None:
    found = LICENCES["rows"](distributions())
    names = [name for name, _, _ in found]
    assert len(set(names)) == len(names) and {"numpy", "torch", "safetensors"} <= set(names)
    assert "fedpace" not in names and names == sorted(names, key=str.lower)
    table = LICENCES["table"](found).splitlines()
    assert len(table) == len(found) + 1 and table[0].split() == ["package", "version", "licence"]


def test_the_script_may_be_run() -> None:
    assert os.access(SCRIPTS / "audit", os.X_OK)


# ------------------------------------------------------------ vulnerabilities

SUMMARY = runpy.run_path(str(SCRIPTS / "_vulnerabilities.py"))["summary"]
UNREACHED = "vulnerabilities: not checked, the database of pip-audit could not be reached"
GOOD = {"name": "numpy", "version": "2.0", "vulns": []}
BAD = {"name": "pillow", "version": "9.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["9.1", "10"]}]}
SKIPPED = {"name": "torch", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("packages", "lines", "code"),
    [
        ([GOOD], ["vulnerabilities: none known, 1 of 1 packages checked"], 0),
        (
            [GOOD, SKIPPED],
            ["vulnerabilities: none known, 1 of 2 packages checked; not in the database: torch"],
            0,
        ),
        (
            [GOOD, BAD],
            ["vulnerabilities: 1 known, 2 of 2 packages checked", "pillow 9.0: PYSEC-1, repaired in 9.1, 10"],
            1,
        ),
        ([SKIPPED, SKIPPED], [UNREACHED], 0),
        ([], [UNREACHED], 0),
    ],
)
def test_nothing_found_is_told_from_nothing_looked_up(packages, lines: list[str], code: int) -> None:
    assert SUMMARY(json.dumps({"dependencies": packages})) == (lines, code)


@pytest.mark.parametrize("text", ["", "Traceback", "[]", '{"a": 1}'])
def test_an_auditor_that_failed_has_checked_nothing(text: str) -> None:
    assert SUMMARY(text) == ([UNREACHED], 0)
