"""The front door: help, unknown commands, and what every failure looks like."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fedpace as package
from fedpace import cli
from fedpace.errors import ConfigError

SRC = str(Path(package.__file__).parents[1])


def test_help_names_every_command_and_a_first_experiment(fedpace) -> None:
    said = fedpace("--help")
    assert said.code == 0 and said.err == ""
    assert all(f"\n  {verb} " in said.out for verb in cli.VERBS)
    assert "fedpace run fedgm" in said.out
    assert fedpace().out == said.out


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_command_explains_itself_in_its_own_words(fedpace, verb: str) -> None:
    command = importlib.import_module(f"fedpace.cli.verbs.{verb}").command
    said = fedpace(verb, "--help")
    assert said.code == 0
    assert (inspect.getdoc(command) or "").splitlines()[0] == cli.VERBS[verb]
    assert cli.VERBS[verb] in " ".join(said.out.split())


def test_version(fedpace) -> None:
    assert fedpace("--version").out == f"fedpace {package.__version__}\n"


def test_an_unknown_command_gets_one_line_with_the_nearest(fedpace) -> None:
    said = fedpace("rnu")
    assert said.code == 2 and said.out == ""
    assert said.err == (
        f"fedpace: did you mean run? command must be one of {', '.join(sorted(cli.VERBS))}; got 'rnu'\n"
    )


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("beta must be < 1; got 2"), 2, "fedpace list: beta must be < 1; got 2\n"),
        (OSError(28, "No space left on device"), 2, "fedpace list: [Errno 28] No space left on device\n"),
        (KeyboardInterrupt(), 130, "fedpace list: interrupted\n"),
    ],
)
def test_failures_are_one_line_and_an_exit_code(fedpace, monkeypatch, error, code: int, line: str) -> None:
    def fail(args: object) -> int:
        raise error

    monkeypatch.setattr(importlib.import_module("fedpace.cli.verbs.list"), "command", fail)
    said = fedpace("list")
    assert (said.code, said.err) == (code, line)


def test_a_mistake_of_ours_is_not_hidden(fedpace, monkeypatch) -> None:
    def fail(args: object) -> int:
        raise AssertionError("a bug")

    monkeypatch.setattr(importlib.import_module("fedpace.cli.verbs.list"), "command", fail)
    with pytest.raises(AssertionError, match="a bug"):
        fedpace("list")


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["compare", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    code = f"import sys; from fedpace.cli import main; main({words!r}); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": SRC},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = done.stdout.splitlines()[-1].split()
    assert {"numpy", "torch", "sklearn", "matplotlib", "pandas", "rich"}.isdisjoint(loaded)


def test_a_reader_that_goes_away_gets_no_complaint() -> None:
    code = "import sys; from fedpace.cli import main; sys.exit(main(['list', 'algorithms']))"
    env = {**os.environ, "PYTHONPATH": SRC}
    command = ["bash", "-c", f'{sys.executable} -c "{code}" | true']
    assert subprocess.run(command, env=env, capture_output=True, text=True).stderr == ""
