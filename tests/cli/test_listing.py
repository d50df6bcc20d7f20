"""The list of runs: as cheap for thousands as it can be, and no wider than the terminal."""

from __future__ import annotations

import sqlalchemy as sql

from fedpace.cli import listing
from fedpace.disk import locks
from fedpace.record.store.store import Store


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


def test_columns_are_aligned_and_letters_that_take_two_columns_are_counted_as_two(capsys) -> None:
    listing.lines(("name", "n"), [("a", "1"), ("日本", "20"), ("\x1b[31m", "3")], align="lr")
    assert capsys.readouterr().out == "\n".join(
        ["name       n", "─" * 12, "a          1", "日本      20", "\\x1b[31m   3", ""]
    )


def test_the_widest_columns_give_way_to_a_narrow_terminal(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    listing.lines(("name", "state"), [("a" * 30, "done"), ("b", "running")], align="ll")
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == ["aaaaaaaaaa…  done", "b            running"]
    assert max(map(len, lines)) == 20
