"""What the server answers: numbers chosen by hand, so that every total is arithmetic."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.dashboard.serving import SOURCE, Server, record, stored

from fedpace.dashboard import timeline
from fedpace.dashboard.events import MOST_WAITING, RESET, _put
from fedpace.dashboard.sweeps import points, settings
from fedpace.dashboard.watching import RunsWatch, RunWatch
from fedpace.record.fleet import ClientStatus, FleetAlarm, FleetStatus, write
from fedpace.record.run.timeline import KINDS
from fedpace.record.store.artifacts import FATES
from fedpace.record.store.store import Store

# ------------------------------------------------------------ one run


def test_a_history_is_columns_and_can_be_had_from_a_version_on(ui: Server) -> None:
    stored(ui.store, "columns", steps=4)
    whole, rest = (
        ui.ask("GET", "/api/history/columns").json,
        ui.ask("GET", "/api/history/columns?after=3").json,
    )
    assert whole["version"] == [1, 2, 3, 4] and whole["virtual_seconds"] == [2, 4, 6, 8]
    assert whole["real_seconds"] == [0.5, 1.0, 1.5, 2.0] and whole["bytes_down"] == [200] * 4
    assert whole["metrics"]["loss"] == [1, 1 / 2, 1 / 3, 1 / 4]
    assert whole["staleness"] == [0.5, 1.0, 1.5, 2.0] and whole["max_staleness"] == [1, 2, 3, 4]
    assert rest["version"] == [4] and rest["metrics"]["accuracy"] == [1 - 1 / 5]
    assert ui.ask("GET", "/api/history/columns?after=x").status == 400
    assert ui.ask("GET", "/api/history/none").status == 404


def test_participation_counts_every_update(ui: Server) -> None:
    """Client 0 is in each of 4 steps, and once more in the fourth; 1, 2, 3 once each."""
    stored(ui.store, "people", steps=4)
    found = ui.ask("GET", "/api/clients/people").json
    assert found["participation"] == [5, 1, 1, 1] and found["participated"] == 4
    assert found["jain"] == 8**2 / (4 * (25 + 3))
    assert found["staleness"] == [[0, 4], [1, 1], [2, 1], [3, 1], [4, 1]]
    assert found["clients"]["updates"] == [5, 1, 1, 1] and found["clients"]["max staleness"] == [4, 1, 2, 3]


def test_notes_and_tags_are_kept_and_checked(ui: Server) -> None:
    stored(ui.store, "noted/row/0")
    path = "/api/runs/noted%2Frow%2F0"
    said = {"note": "<b>why</b>", "tags": ["paper", "x y", "paper"]}
    assert ui.ask("PATCH", path, body=said).status == 401
    assert ui.act("PATCH", path, said).status == 200
    shown = ui.ask("GET", path).json
    assert (shown["note"], shown["tags"]) == ("<b>why</b>", ["paper", "x y"])
    [line] = [run for run in ui.ask("GET", "/api/runs").json if run["name"] == "noted/row/0"]
    assert line["tags"] == ["paper", "x y"]
    for bad in ({"tags": ["a,b"]}, {"tags": "a"}, {"tags": ["a"] * 51}, {"note": 5}, {"note": "x" * 20_001}):
        assert ui.act("PATCH", path, bad).status == 400
    assert ui.act("PATCH", "/api/runs/nobody", said).status == 404
    assert ui.act("PATCH", path, ["no object"]).status == 400
    assert ui.ask("GET", path).json["note"] == "<b>why</b>"


def test_a_deleted_runs_annotation_goes_with_it(ui: Server) -> None:
    stored(ui.store, "short")
    ui.act("PATCH", "/api/runs/short", {"note": "gone soon", "tags": []})
    ui.act("DELETE", "/api/runs/short")
    stored(ui.store, "short")
    assert ui.ask("GET", "/api/runs/short").json["note"] == ""


def test_files_are_attachments_with_a_plain_name(ui: Server) -> None:
    stored(ui.store, "taken/away/1", steps=2)
    path = "taken%2Faway%2F1"
    csv, text = (
        ui.ask("GET", f"/api/files/history.csv/{path}"),
        ui.ask("GET", f"/api/files/history.json/{path}"),
    )
    assert csv.headers["content-disposition"] == 'attachment; filename="taken-away-1-history.csv"'
    assert csv.body.count(b"\n") == 3 and json.loads(text.body)["history"][1]["version"] == 2
    assert ui.ask("GET", f"/api/files/model/{path}").status == 404
    assert ui.ask("GET", f"/api/files/passwd/{path}").status == 404
    assert ui.ask("GET", "/api/files/history.csv/..%2f..%2fetc").status == 404


# ------------------------------------------------------------ the client timeline


def test_a_wait_is_the_time_between_training_and_its_upload() -> None:
    """Client 3 trains from 0 to 1, waits, uploads from 2 to 3; client 1 trains from 0 to 4 in vain."""
    train, upload, wait = KINDS.index("train"), KINDS.index("upload"), KINDS.index("wait")
    columns = timeline.columns(
        {
            "activity.client": np.array([3, 1, 3]),
            "activity.start": np.array([2.0, 0.0, 0.0]),
            "activity.end": np.array([3.0, 4.0, 1.0]),
            "activity.kind": np.array([upload, train, train], np.uint8),
            "activity.version": np.array([0, 0, 0]),
            "activity.session": np.array([7, 7, 7]),
            "fate.client": np.array([1, 3]),
            "fate.session": np.array([7, 7]),
            "fate.fate": np.array([FATES.index("dropped"), FATES.index("consumed")], np.uint8),
            "fate.version": np.array([-1, 5]),
        }
    )
    assert columns["client"].tolist() == [1, 3, 3, 3]
    assert columns["kind"].tolist() == [train, train, wait, upload]
    assert columns["start"].tolist() == [0, 0, 1, 2] and columns["end"].tolist() == [4, 1, 2, 3]
    assert [FATES[fate] for fate in columns["fate"]] == ["dropped", "consumed", "consumed", "consumed"]


def test_a_session_without_an_outcome_is_pending() -> None:
    empty = np.array([], np.int64)
    fates = {f"fate.{name}": empty for name in ("client", "session", "fate", "version")}
    one = {
        f"activity.{name}": np.array([0]) for name in ("client", "start", "end", "kind", "version", "session")
    }
    assert timeline.columns({**one, **fates})["fate"].tolist() == [timeline.PENDING]


# ------------------------------------------------------------ several runs


def test_seeds_are_one_row_with_its_interval_and_differences_are_paired(ui: Server) -> None:
    for row, place in (("a", 0), ("b", 1)):
        for seed in (0, 1):
            about = {"study": {"name": "both", "row": row, "place": place}}
            stored(ui.store, f"both/{row}/{seed}", seed=seed, steps=2 + place, about=about)
    found = ui.ask("GET", "/api/compare?run=both&metric=accuracy&target=accuracy%3D0.6").json
    assert [row["label"] for row in found["rows"]] == ["a", "b"] and found["target"] == ["accuracy", 0.6]
    mean = found["rows"][0]["mean"]
    assert mean["values"] == [1 / 2, 1 - 1 / 3] and mean["low"] == mean["high"] == mean["values"]
    assert mean["seconds"] == [2, 4] and mean["traffic"] == [300, 600] and mean["real"] == [0.5, 1.0]
    [difference] = found["tables"][1]["rows"]
    assert difference[0] == "b" and difference[1] == f"{3 / 4 - 2 / 3:+.3g}" and difference[-1] == "2"
    assert ui.ask("GET", "/api/compare?run=both&target=accuracy%3Dx").status == 400
    assert ui.ask("GET", "/api/compare?run=nobody").status == 400
    assert ui.ask("GET", "/api/compare").status == 400


@pytest.mark.parametrize(
    ("kind", "beginning"),
    [
        ("csv", b"row,seed,state"),
        ("tex", b"\\begin{tabular}"),
        ("report.html", b"<!doctype html>"),
        pytest.param("png", b"\x89PNG", marks=pytest.mark.long),
    ],
)
def test_a_comparison_is_exported(ui: Server, kind: str, beginning: bytes) -> None:
    stored(ui.store, f"alone-{kind}", steps=2)
    answer = ui.ask("GET", f"/api/compare/{kind}?run=alone-{kind}")
    assert answer.status == 200 and beginning in answer.body[:300]
    assert answer.headers["content-disposition"].startswith("attachment")
    assert ui.ask("GET", f"/api/compare/exe?run=alone-{kind}").status == 404


def test_points_of_a_sweep_are_ranked_and_named_by_what_varies(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for steps, beta in ((2, "0.5"), (4, "0.9"), (3, "0.7")):
        words = ["fedgm", "--seed", "0", "--set", f"beta={beta}", "--set=codec='a=b'"]
        stored(store, f"grid/{beta}/0", steps=steps, arguments=words)
    stored(store, "grid/failed/0", state="diverged", arguments=["fedgm", "--set", "beta=2"])
    found = points(store, ["grid"], "")
    assert found["names"] == ["beta", "codec"] and found["metric"] == "accuracy"
    assert [point["settings"]["beta"] for point in found["points"]] == ["0.9", "0.7", "0.5", "2"]
    assert found["points"][0]["mean"] == 1 - 1 / 5 and found["points"][-1]["state"] == "diverged"
    assert settings(store["grid/0.5/0"])["codec"] == "'a=b'"


def test_settings_of_a_python_programs_sweep_are_read_from_its_row(tmp_path: Path) -> None:
    row = "beta=0.9, codec=TopK(ratio=0.1, per=1), lr=1"
    stored(Store(tmp_path), "s/r/0", about={"study": {"name": "s", "row": row, "place": 0}})
    found = settings(Store(tmp_path)["s/r/0"])
    assert (found["beta"], found["lr"]) == ("0.9", "1")


# ------------------------------------------------------------ events


def test_the_list_tells_what_came_changed_and_went(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stored(store, "old")
    watch = RunsWatch(store)
    assert watch() is None
    stored(store, "new", state="running")
    assert [run["name"] for run in json.loads(watch() or "")["runs"]] == ["new"]
    assert watch() is None
    store.add(store["new"].id, [record(4)], [2.0])
    [line] = json.loads(watch() or "")["runs"]
    assert line["steps"] == 4
    store.set(store["new"].id, "done")
    assert json.loads(watch() or "")["runs"][0]["state"] == "done"
    store.delete("old")
    assert json.loads(watch() or "") == {"runs": [], "gone": ["old"]}


def test_one_run_tells_its_new_steps_and_that_it_was_rolled_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stored(store, "live", state="running", rounds=9)
    watch, number = RunWatch(store, "live"), store["live"].id
    with store.working_on(store["live"]):
        assert watch() is None and watch() is None
        store.add(number, [record(4), record(5)], [2.0, 2.5])
        event = json.loads(watch() or "")
        assert event["from"] == 3 and event["steps"]["version"] == [4, 5]
        assert event["run"]["seconds_left"] == pytest.approx(2.5 / 5 * 4)
        store.roll_back(number, [record(1)])
        assert json.loads(watch() or "") == {"reset": True}
    assert json.loads(watch() or "")["run"]["state"] == "died"
    store.delete("live")
    assert json.loads(watch() or "") == {"gone": True}


def test_a_reader_that_is_too_slow_is_told_to_start_over() -> None:
    import asyncio

    async def fill() -> list[str | None]:
        listener: asyncio.Queue[str | None] = asyncio.Queue(MOST_WAITING)
        for number in range(MOST_WAITING + 1):
            _put(listener, str(number))
        return [listener.get_nowait() for _ in range(listener.qsize())]

    assert asyncio.run(fill()) == [RESET]


def events(server: Server, path: str) -> Iterator[Any]:
    """The data of a stream, as it comes."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    try:
        while True:
            line = answer.readline().decode().rstrip("\n")
            if line.startswith("retry"):
                yield None
            elif line.startswith("data: "):
                yield json.loads(line[6:])
    finally:
        connection.close()


def test_many_streams_hear_the_same(ui: Server) -> None:
    stored(ui.store, "watched", state="running", rounds=9)
    streams = [events(ui, "/api/events/run/watched") for _ in range(5)]
    assert [next(stream) for stream in streams] == [None] * 5  # all are open
    store, written = ui.store, threading.Event()

    def write_until_heard() -> None:  # whatever the first look found, later steps are beyond it
        for version in range(4, 400):
            store.add(store["watched"].id, [record(version)], [1.0])
            if written.wait(0.05):
                return

    writer = threading.Thread(target=write_until_heard)
    writer.start()
    heard = [next(stream) for stream in streams]
    written.set()
    writer.join()
    assert all(event["steps"]["version"][0] == event["from"] + 1 for event in heard)
    assert len({event["from"] for event in heard}) == 1
    for stream in streams:
        stream.close()


# ------------------------------------------------------------ the fleet


def test_fleets_are_shown_and_told_to_prometheus(ui: Server) -> None:
    stored(ui.store, "deployed", state="running")
    client = ClientStatus(7, "training", 3, 1.5, 10, 20, 2, 1, 99.0)
    alarm = FleetAlarm("disk_nearly_full", "1 GB left")
    status = FleetStatus(100.0, "deployed", 3, 9, 0.5, 1, 1, 0, 10, 20, {"late": 1}, (client,), (alarm,))
    write(ui.store, ui.store["deployed"].id, status)
    [shown] = ui.ask("GET", "/api/fleet").json
    assert (shown["run"], shown["clients"][0]["round_trip"]) == ("deployed", 1.5)
    text = ui.ask("GET", "/metrics")
    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'fedpace_step{run="deployed"} 3' in text.body.decode()


def test_prometheus_reads_a_private_page_with_the_token_only(private: Server) -> None:
    token = private.said[0].partition("#token=")[2]
    assert private.ask("GET", "/metrics").status == 401
    assert private.ask("GET", "/metrics", {"Authorization": f"Bearer {token}"}).status == 200


# ------------------------------------------------------------ actions


WORKER = """
import signal, sys, threading
from fedpace.record.store.store import Store
store, name, stop = Store(sys.argv[1]), sys.argv[2], threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with store.working_on(store[name]):
    print("working", flush=True)
    stop.wait(60)
"""


def test_stopping_sends_the_owner_a_signal_and_nobody_else(ui: Server) -> None:
    stored(ui.store, "long", state="running")
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", WORKER, str(ui.home), "long"]
    worker = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None and worker.stdout.readline() == "working\n"
    assert ui.ask("POST", "/api/actions/stop", body={"name": "long"}).status == 401
    answer = ui.act("POST", "/api/actions/stop", {"name": "long"})
    assert answer.json == {"stopping": "long", "process": worker.pid}
    worker.communicate(timeout=30)
    assert worker.returncode == 0
    again = ui.act("POST", "/api/actions/stop", {"name": "long"})
    assert again.status == 400 and "works on" in again.json["error"]


def test_a_signature_of_another_process_is_nobodys(tmp_path: Path) -> None:
    """A process number that was given out again is not signalled."""
    store = Store(tmp_path)
    stored(store, "forged", state="running")
    entry = store["forged"]
    with store.working_on(entry):
        assert store.owner(entry) == os.getpid()
        file = store.folder("forged") / "process"
        known = json.loads(file.read_text())
        for changed in ({"began": "1"}, {"host": "elsewhere"}, {"pid": 1}, {"pid": "x"}, {"pid": -1}):
            file.write_text(json.dumps({**known, **changed}))
            assert store.owner(entry) is None
    assert store.owner(entry) is None


def test_only_files_of_the_folder_are_started(ui: Server) -> None:
    folder = ui.home.parent / "experiments"
    (folder / "good.toml").write_text('algorithm = "fedavg"\ntask = "digits"\nrounds = 1\n')
    (folder / "bad.toml").write_text("= = =")
    (folder / "notes.txt").write_text("no experiment")
    (folder / "link.toml").symlink_to("/etc/hostname")
    found = {file["name"]: file for file in ui.ask("GET", "/api/experiments").json}
    assert sorted(found) == ["bad.toml", "good.toml"] and "error" in found["bad.toml"]
    for name in (
        "../open/actions.jsonl",
        "/etc/passwd",
        "link.toml",
        "notes.txt",
        "good",
        "",
        "..%2fgood.toml",
    ):
        refused = ui.act("POST", "/api/actions/start", {"name": name})
        assert refused.status == 400 and "good.toml" in refused.json["error"]
    assert ui.act("POST", "/api/actions/format", {"name": "good.toml"}).status == 404
    assert ui.act("POST", "/api/actions/start", {"name": 5}).status == 400


def test_what_cannot_be_resumed_or_extended_is_refused_and_logged(ui: Server) -> None:
    stored(ui.store, "over", steps=3)
    for verb, more in (("extend", {"rounds": 3}), ("extend", {"rounds": True}), ("extend", {}), ("stop", {})):
        assert ui.act("POST", f"/api/actions/{verb}", {"name": "over", **more}).status == 400
    assert ui.act("POST", "/api/actions/resume", {"name": "../x"}).status == 400
    lines = ui.ask("GET", "/api/actions").json
    assert (
        lines[0]["subject"] == "../x"
        and lines[0]["result"].startswith("refused")
        and lines[0]["by"] == "127.0.0.1"
    )


@pytest.mark.long
def test_a_run_is_started_stopped_and_resumed_from_the_page(ui: Server) -> None:
    lines = (
        'algorithm = "fedavg"',
        "clients = 10",
        'model = "softmax"',
        "rounds = 100000",
        'name = "from-page"',
    )
    text = "\n".join(lines)
    (ui.home.parent / "experiments" / "night.toml").write_text(text)
    assert ui.act("POST", "/api/actions/start", {"name": "night.toml"}).status == 200
    wait_for(
        lambda: "from-page" in ui.store.statuses() and ui.ask("GET", "/api/runs/from-page").json["steps"] > 3
    )
    assert ui.act("POST", "/api/actions/stop", {"name": "from-page"}).status == 200
    wait_for(lambda: ui.store.statuses()["from-page"] == "interrupted")
    stopped = ui.ask("GET", "/api/runs/from-page").json["steps"]
    assert ui.act("POST", "/api/actions/resume", {"name": "from-page"}).status == 200
    wait_for(lambda: ui.ask("GET", "/api/runs/from-page").json["steps"] > stopped)
    assert ui.act("POST", "/api/actions/stop", {"name": "from-page"}).status == 200
    wait_for(lambda: ui.store.statuses()["from-page"] == "interrupted")
    wait_for(lambda: any(line["action"] == "resume ended" for line in ui.ask("GET", "/api/actions").json))


def wait_for(condition: Any) -> None:
    import time

    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)
