"""A run store that somebody else has written to: one line for what is damaged, and text stays text."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from fedpace.cli import main
from fedpace.errors import StorageError
from fedpace.record.rows import LISTED
from fedpace.record.store import checkpoint
from fedpace.record.store.store import DATABASE, Store

SMALL = ("--clients", "5", "--model", "softmax", "--rounds", "3")
ESCAPE = "\x1b[2J\x1b]0;owned\x07"
MARKUP = "[bold red]loud[/bold red][/]"
HTML = "<script>alert(1)</script>'\""
MATHS = r"$\frac{$"
READERS = (["runs"], ["runs", "show", "night"], ["report", "night"], ["runs", "export", "-o", "all.csv"])


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A store with one finished run."""
    home = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FEDPACE_HOME", str(home))
        assert main(["run", "fedavg", *SMALL, "--name", "night", "--quiet"]) == 0
    return home


@pytest.fixture
def home(made, tmp_path, monkeypatch) -> Path:
    shutil.copytree(made, tmp_path / "home")
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def alter(home: Path, table: str, column: str, value: object) -> None:
    with sqlite3.connect(home / DATABASE) as connection:
        connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
    connection.close()


def stored(home: Path, column: str) -> dict:
    connection = sqlite3.connect(home / DATABASE)
    [(text,)] = connection.execute(f"SELECT {column} FROM runs")
    connection.close()
    return json.loads(text)


# ------------------------------------------------------------ rows of another kind

OTHER_JSON = (
    "",
    "{",
    "null",
    "7",
    '"text"',
    "[1, [2]]",
    '{"a": {"b": [1]}}',
    "[" * 100_000,
    b"\xff\xfe",
    1.5,
)
RUNS = [(column, value) for column in ("experiment", "arguments", "counters") for value in OTHER_JSON]
RUNS += [(column, value) for column in ("about", "summary", "traffic") for value in OTHER_JSON[:6]]
RUNS += [
    ("about", '{"versions": []}'),
    ("about", '{"papers": {"a": 1}}'),
    ("summary", '{"real_seconds": "long"}'),
    ("summary", '{"real_seconds": NaN}'),
    ("summary", '{"compute": ["inline"]}'),
    ("traffic", '{"up": {"frames": 1}}'),
    ("traffic", '{"up": []}'),
    ("counters", '{"solved": 1e3}'),
    ("counters", f'{{"solved": {10**30}}}'),
    ("began", "yesterday"),
    ("began", 7),
    ("ended", "tomorrow"),
    ("seed", "three"),
    ("rounds", "many"),
    ("status", b"\x00\x01"),
    ("note", b"\xff"),
]


@pytest.mark.parametrize(("column", "value"), RUNS, ids=lambda value: str(value)[:20])
def test_a_run_of_another_kind_is_one_line(home, fedpace, column: str, value: object) -> None:
    alter(home, "runs", column, value)
    if column not in LISTED:  # the list of runs does not read it, and still shows which run to delete
        assert fedpace("runs").code == 0
    for words in READERS[column not in LISTED : 3]:
        said = fedpace(*words)
        assert said.code == 2 and said.err.count("\n") == 1 and said.err.isascii(), words
        assert said.err.startswith(f"fedpace {words[0]}: the run store ")
    assert fedpace("runs", "delete", "night").code == 0  # and so it can be got rid of
    assert fedpace("runs").out.startswith("no saved runs")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("metrics", "[]"),
        ("metrics", '{"loss": "low"}'),
        ("metrics", '{"loss": NaN}'),
        ("metrics", "{"),
        ("metrics", f'{{"loss": {10**400}}}'),
        ("clients", "{}"),
        ("clients", '["a"]'),
        ("clients", "7"),
        ("staleness", "[0.5]"),
        ("staleness", "[" * 100_000),
        ("virtual_seconds", "soon"),
        ("virtual_seconds", float("inf")),
        ("bytes_up", "all"),
        ("bytes_down", 1.5),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_step_of_another_kind_is_one_line(home, fedpace, column: str, value: object) -> None:
    alter(home, "steps", column, value)
    for words in READERS[column != "metrics" :]:
        said = fedpace(*words)
        assert said.code == 2, words
        assert said.err == (
            f"fedpace {words[0]}: the run store has a damaged step of run 1: {column} of another kind\n"
        )


@pytest.mark.parametrize("text", ["", "-5", "all", "9" * 5000])
def test_a_report_needs_to_know_how_many_clients_there_were(home, fedpace, text: str) -> None:
    alter(home, "runs", "experiment", json.dumps({**stored(home, "experiment"), "clients": text}))
    said = fedpace("report", "night")
    assert said.code == 2 and "its clients are" in said.err and len(said.err) < 400


def test_times_of_steps_that_are_none_are_left_out(home) -> None:
    alter(home, "steps", "real_seconds", "late")
    assert Store().real_seconds(1) == [0.0, 0.0, 0.0]


# ------------------------------------------------------------ names that lead elsewhere


@pytest.mark.parametrize("name", ["../../precious", "/etc", ".", "..", "a//b", "a/../../b", "a/", ESCAPE, ""])
def test_a_name_is_never_a_way_out_of_the_store(home, fedpace, name: str) -> None:
    precious = home.parent / "precious"
    precious.mkdir()
    alter(home, "runs", "name", name)
    for words in (["runs"], ["runs", "show", name], ["report", name], ["resume", name]):
        said = fedpace(*words)
        assert said.code == 2 and said.err.count("\n") == 1 and said.err.rstrip("\n").isprintable(), words
    with pytest.raises(StorageError, match="must be in a folder with its name"):
        Store().folder(name)
    assert fedpace("runs", "delete", name).code == 0
    assert precious.exists() and Store().entries() == [] and (home / "runs" / "night").exists()


def plant(home: Path, name: str) -> Path:
    """A link in place of a run's folder, to a folder of somebody else's."""
    theirs = home.parent / "theirs"
    theirs.mkdir()
    (theirs / "letter").write_text("dear")
    (home / "runs" / name).symlink_to(theirs, target_is_directory=True)
    return theirs


def test_a_link_in_place_of_a_new_run_is_not_written_through(home, fedpace) -> None:
    theirs = plant(home, "day")
    said = fedpace("run", "fedavg", *SMALL, "--name", "day", "--quiet")
    assert said.code == 2
    assert said.err == (
        f"fedpace run: the files of a run must be in a folder with its name; got '{home / 'runs' / 'day'}'\n"
    )
    assert [path.name for path in theirs.iterdir()] == ["letter"]
    assert [entry.name for entry in Store().entries()] == ["night"]


@pytest.mark.parametrize("target", ["theirs", "nowhere"])
def test_a_name_that_a_link_has_taken_is_not_chosen(home, fedpace, target: str) -> None:
    (home.parent / "theirs").mkdir()
    (home / "runs" / "fedavg-digits-1").symlink_to(home.parent / target)
    assert fedpace("run", "fedavg", *SMALL, "--quiet").code == 0
    assert [entry.name for entry in Store().entries()] == ["night", "fedavg-digits-2"]
    assert list((home.parent / "theirs").iterdir()) == [] and not (home.parent / "nowhere").exists()


@pytest.mark.parametrize("words", [["resume", "night"], ["runs", "show", "night"], ["report", "night"]])
def test_a_link_in_place_of_a_kept_run_is_not_followed(home, fedpace, words) -> None:
    shutil.rmtree(home / "runs" / "night")
    theirs = plant(home, "night")
    alter(home, "runs", "status", "interrupted")
    said = fedpace(*words)
    assert said.code == 2 and "must be in a folder with its name" in said.err
    assert [path.name for path in theirs.iterdir()] == ["letter"]
    assert fedpace("runs", "delete", "night").code == 0
    assert (theirs / "letter").exists() and not (home / "runs" / "night").is_symlink()


@pytest.mark.parametrize(
    "file", ["model.safetensors", "timeline.safetensors", checkpoint.NEXT, "history.jsonl", "lock"]
)
def test_links_in_the_folder_of_a_run_are_not_written_through(home, fedpace, file: str) -> None:
    """An interrupted run that goes on replaces them, or refuses; what they name stays as it was."""
    letter = home.parent / "letter"
    letter.write_text("dear")
    folder = home / "runs" / "night"
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / file).symlink_to(letter)
    alter(home, "runs", "status", "interrupted")
    said = fedpace("resume", "night", "--quiet", "--checkpoint-every", "1")
    assert said.code in (0, 2) and said.err.count("\n") <= 1
    assert letter.read_text() == "dear"


# ------------------------------------------------------------ files of another kind


@pytest.mark.parametrize("file", ["model.safetensors", "timeline.safetensors"])
@pytest.mark.parametrize("content", ["pipe", b"", b"\xff" * 100, b"\x02\0\0\0\0\0\0\0{}", "columns", "order"])
def test_files_of_a_run_of_another_kind(home, fedpace, file: str, content: bytes | str) -> None:
    from safetensors.numpy import save

    path = home / "runs" / "night" / file
    path.unlink()
    if content == "pipe":
        os.mkfifo(path)
    elif content == "columns":
        names = [f"activity.{n}" for n in ("client", "start", "end", "kind", "version", "session")]
        names += [f"fate.{n}" for n in ("client", "session", "fate", "version")]
        path.write_bytes(save({name: np.full(2, 200, np.uint8) for name in names}, {"order": "7"}))
    elif content == "order":
        path.write_bytes(save({"activity.client": np.full((2, 2), np.nan)}, {"order": "[[1]]"}))
    else:
        path.write_bytes(content)
    for words in READERS[1:3]:
        said = fedpace(*words)
        assert said.code == 2 and said.err.count("\n") == 1
        assert said.err.startswith(f"fedpace {words[0]}: the files of a run in {path.parent} are damaged (")


# ------------------------------------------------------------ text stays text


@pytest.mark.parametrize("text", [ESCAPE, MARKUP, HTML, MATHS, "two\nlines", "\udcff", "\u202eback"])
def test_text_from_the_store_is_shown_as_text(home, fedpace, tmp_path, text: str) -> None:
    about = {"versions": {text: text}, "machine": {text: text}, "papers": [text]}
    experiment = {**stored(home, "experiment"), "task": text, "algorithm": text, text: text}
    for column in ("algorithm", "task", "note"):
        alter(home, "runs", column, text.encode("utf-8", "replace").decode())
    alter(home, "runs", "about", json.dumps(about))
    alter(home, "runs", "experiment", json.dumps(experiment))
    alter(home, "runs", "summary", json.dumps({"compute": text, "real_seconds": 1.0}))
    alter(home, "steps", "metrics", json.dumps({"loss": 1.0, text: 2.0}))
    for words in READERS[:2]:
        said = fedpace(*words)
        assert said.code == 0, words
        assert all(line.isprintable() for line in said.out.splitlines())
        if text == MARKUP:
            assert MARKUP[:10] in said.out
    assert fedpace("report", "night", "--title", text).code == 0
    page = (tmp_path / "report.html").read_text()
    assert "\x1b" not in page and "<script>alert" not in page and "\u202e" not in page
    if text in (HTML, MARKUP):
        assert text.partition("'")[0].replace("<", "&lt;").replace(">", "&gt;") in page


def test_pictures_have_text_as_text(home, tmp_path) -> None:
    from fedpace.record.report import compare, gantt, plot
    from fedpace.record.store import artifacts

    text = MATHS + ESCAPE + MARKUP
    alter(home, "runs", "task", text)
    store = Store()
    run = artifacts.load(store, store["night"])
    for figure in (
        run.plot(),
        compare.picture({text: [run, run]}, title=text),
        plot.curves({text: run, "b": run}, text),
        gantt.gantt(run.timeline(), text),
    ):
        plot.save(figure, tmp_path / "picture.svg")
        assert "\x1b" not in (tmp_path / "picture.svg").read_text()


def test_progress_has_text_as_text(capsys) -> None:
    from rich.console import Console

    from fedpace.record.run.progress import shown

    with shown(f"{MARKUP} on {ESCAPE}", 3, Console(force_terminal=False, width=200)):
        pass
    said = capsys.readouterr().out
    assert MARKUP in said and "\x1b" not in said and r"\x1b[2J" in said


def test_errors_have_text_as_text(fedpace) -> None:
    said = fedpace(f"{ESCAPE}{MARKUP}\nsecond line")
    assert said.code == 2 and said.err.count("\n") == 1 and "\x1b" not in said.err and MARKUP in said.err
