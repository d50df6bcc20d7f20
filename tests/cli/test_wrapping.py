"""On a terminal of 80 columns: help wraps between words, tables go on below, names and numbers stay whole."""

from __future__ import annotations

import inspect

import pytest

from fedpace import cli
from fedpace.cli import show
from fedpace.cli.entry import parser_of
from fedpace.cli.wrapping import filled, wrapped


@pytest.fixture(autouse=True)
def narrow(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("verb", cli.VERBS)
def test_help_fits_and_no_word_of_it_is_cut(fedpace, verb: str) -> None:
    said = fedpace(verb, "--help").out
    assert max(map(len, said.splitlines())) <= 80
    words = (inspect.getdoc(parser_of(verb).get_default("command")) or "").split()
    assert set(words) <= set(said.split())


def test_the_list_of_commands_fits(fedpace) -> None:
    said = fedpace("--help").out
    assert max(map(len, said.splitlines())) <= 80
    assert all(" ".join(line.split()) in " ".join(said.split()) for line in cli.VERBS.values())


def test_lines_are_broken_at_spaces_and_not_at_hyphens() -> None:
    assert wrapped("a population half-normal:5 here", 20) == ["a population", "half-normal:5 here"]
    assert filled("one two\nthree\n\n  an example: it stays", 80) == "one two three\n\n  an example: it stays"
    assert filled("  --set NAME   a long text of words", 30).splitlines() == [
        "  --set NAME   a long text of",
        "               words",
    ]


def test_a_table_that_is_too_wide_goes_on_below_with_its_names(capsys) -> None:
    header, row = ["", *(f"column {k}" for k in range(8))], ["a-name", *(f"{k} ± 0.25" for k in range(8))]
    show.table(header, [row], align="l" + "r" * 8, caption="said once")
    said = capsys.readouterr().out
    assert "…" not in said and max(map(len, said.splitlines())) <= 80
    assert said.count("a-name") == 2 and said.count("said once") == 1
    assert all(f"{k} ± 0.25" in said and f"column {k}" in said for k in range(8))


def test_a_list_of_runs_says_what_varied(fedpace) -> None:
    grid = ["--grid", "server_lr=0.5,1.0", "--rounds", 1, "--clients", 2, "--quiet", "--processes", 1]
    assert fedpace("sweep", "fedgm", *grid).code == 0
    assert fedpace("run", "fedavg", "--rounds", 1, "--clients", 2, "--quiet", "--set", "steps=1").code == 0
    said = fedpace("runs").out
    assert [line.split()[0:3:2] for line in said.splitlines()[2:]] == [
        ["fedgm-digits-1", "server_lr=0.5"],
        ["fedgm-digits-2", "server_lr=1.0"],
        ["fedavg-digits-1", "steps=1"],
    ]
    assert "settings" in said.splitlines()[0] and max(map(len, said.splitlines())) <= 80


def test_long_lists_of_numbers_are_not_printed_whole(fedpace) -> None:
    members = list(range(40))
    words = ["--set", f"select=Scripted([{members}])", "--rounds", 1, "--clients", 40, "--quiet"]
    assert fedpace("run", "fedavg", *words).code == 0
    shown = fedpace("runs", "show", "fedavg-digits-1").out
    assert "(0, 1, 2, ... 40 numbers)" in shown and ", 38, 39" not in shown
