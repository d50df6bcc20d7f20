"""The list of runs: as cheap for thousands as it can be, and no wider than the terminal."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sql

from fedpace.cli import listing
from fedpace.disk import locks
from fedpace.record.store.store import Store

SOURCE = Path(__file__).parents[2] / "src"
HEAVY = {"numpy", "torch", "sklearn", "matplotlib", "pandas", "rich", "scipy", "numba", "fedpace.sim"}


def begin(store: Store, status: str) -> None:
    about = {"algorithm": "fedgm", "task": "digits", "seed": 3, "rounds": 5, "fingerprint": "f" * 32}
    entry = store.begin(name=None, experiment={"task": "digits"}, **about)
    with store.working_on(entry):
        store.set(entry.id, status)


def test_many_runs_are_one_query_and_only_those_that_may_be_running_are_looked_for(
    fedpace, monkeypatch
) -> None:
    store = Store()
    for status in ["done"] * 30 + ["running"] * 2 + ["interrupted"] * 8:
        begin(store, status)
    asked, queries = [], []
    is_held = locks._is_held
    monkeypatch.setattr(locks, "_is_held", lambda file: asked.append(file.parent.name) or is_held(file))

    def seen(connection, cursor, statement: str, *_: object) -> None:
        if "FROM runs" in statement or "FROM steps" in statement:
            queries.append(statement)

    sql.event.listen(sql.Engine, "before_cursor_execute", seen)
    try:
        said = fedpace("runs")
    finally:
        sql.event.remove(sql.Engine, "before_cursor_execute", seen)
    states = [line.split()[5] for line in said.out.splitlines()[2:]]
    assert states == ["done"] * 30 + ["died"] * 2 + ["interrupted"] * 8
    assert len(queries) == 1
    assert set(asked) == {"fedgm-digits-31", "fedgm-digits-32"}


def test_a_list_of_runs_loads_nothing_but_the_database() -> None:
    """Its time is that of imports: what they cost is many times what thousands of rows do."""
    begin(Store(), "done")
    code = "import sys; from fedpace.cli import main; main(['runs']); print(*sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    said = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert said[2].startswith("fedgm-digits-1")
    assert HEAVY.isdisjoint(said[-1].split())


def test_columns_are_aligned_and_letters_that_take_two_columns_are_counted_as_two(capsys) -> None:
    listing.lines(("name", "n"), [("a", "1"), ("日本", "20"), ("\x1b[31m", "3")], align="lr")
    assert capsys.readouterr().out == "\n".join(
        ["name       n", "─" * 12, "a          1", "日本      20", "\\x1b[31m   3", ""]
    )


def test_the_widest_columns_give_way_to_a_narrow_terminal(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    listing.lines(("name", "note"), [("a" * 7, "z" * 30), ("b", "short")], align="ll")
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == ["aaaaaaa  zzzzzzzzzz…", "b        short"]
    assert max(map(len, lines)) == 20


def test_names_are_never_cut_and_columns_are_dropped_instead(capsys, monkeypatch) -> None:
    header, row = ("name", "seed", "state", "note"), ("study/row/1", "1234", "done", "zzzz")
    shown = {
        30: ["study/row/1  1234  done   zzzz"],
        29: ["study/row/1  1234  done"],
        23: ["study/row/1  done"],
        5: ["study/row/1  done"],
    }
    for columns, lines in shown.items():
        monkeypatch.setenv("COLUMNS", str(columns))
        listing.lines(header, [row], align="llll", droppable=("note", "seed"))
        assert capsys.readouterr().out.splitlines()[2:] == lines


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("kind", "bold"), [("xterm", True), ("dumb", False)])
def test_the_header_is_bold_where_the_terminal_can(kind: str, bold: bool, monkeypatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", kind)
    monkeypatch.setattr("sys.stdout", terminal)
    listing.lines(("name",), [("a",)], align="l")
    header = "\x1b[1mname\x1b[0m" if bold else "name"
    assert terminal.getvalue() == f"{header}\n────\na\n"
