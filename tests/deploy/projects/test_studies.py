"""A study as people type it: made, tried as real processes under every pacing, replayed, and its identities managed."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path
from typing import Any

import pytest

import fedpace
from fedpace import tasks
from fedpace.cli import main
from fedpace.deploy.projects.serving import StudyFolder
from fedpace.errors import ConfigError
from fedpace.record import fleet
from fedpace.record.store.store import Store

TASK = """\
from fedpace.tasks import quadratics

def task():
    return quadratics([[0.0, 1.0], [2.0, -1.0], [5.0, 3.0]], weights=[1, 2, 3])
"""
RUN = """\
[run]
algorithm = "{algorithm}"
clients = 3
rounds = 6
evaluate_every = 2
"""
PACINGS = {
    "rounds": "scaffold(client_lr=0.1, steps=2)",
    "replayed": "autonomous_fedgm(history=2, clients_per_round=2, client_lr=0.1, steps=2)",
    "buffered": "ca2fl(buffer=2, concurrency=3, client_lr=0.1, steps=2)",
    "immediate": "fedasync(concurrency=2, client_lr=0.1, steps=2)",
    "polled": "defedavg_niid(draws=2, client_lr=0.1, steps=2)",
    "arrivals": "defedavg_iid(buffer=2, client_lr=0.1, steps=2)",
    "interrupting": "favano(clients_per_round=2, client_lr=0.1, steps=50, server_period=0.2)",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def study(folder: Path, algorithm: str) -> Path:
    folder.mkdir()
    (folder / "client.py").write_text(TASK, encoding="utf-8")
    (folder / "run.toml").write_text(RUN.format(algorithm=algorithm), encoding="utf-8")
    return folder


QUICK = ("rounds", "buffered", "interrupting")  # the others start as many processes and take as long


@pytest.mark.parametrize(
    "pacing", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in PACINGS]
)
def test_server_and_clients_as_processes_end_as_their_journal_says(pacing: str, home: Path) -> None:
    folder = study(home / "study", PACINGS[pacing])
    synchronous = ["--in-order"] if pacing in ("rounds", "replayed") else []
    tried, again = home / "tried.json", home / "again.json"
    assert main(["deploy", "try", str(folder), "-n", "3", "--quiet", "--json", str(tried), *synchronous]) == 0
    assert main(["replay", "study-try", "--retrain", "--quiet", "--json", str(again)]) == 0
    live, replayed = json.loads(tried.read_text("utf-8")), json.loads(again.read_text("utf-8"))
    assert live["run"] == "study-try" and len(live["history"]) == 6
    assert live["model_sha256"] == replayed["model_sha256"] and live["history"] == replayed["history"]
    assert live["final"]["malformed"] == live["final"]["not_finite"] == 0
    assert (folder / "study-try.png").stat().st_size > 1000
    if synchronous:
        algorithm = StudyFolder.read(folder).algorithm
        task = tasks.quadratics([[0.0, 1.0], [2.0, -1.0], [5.0, 3.0]], weights=[1, 2, 3])
        simulated = fedpace.simulate(algorithm, task, rounds=6)
        assert live["model_sha256"] == json.loads(simulated.to_json())["model_sha256"]
    the_fleets_last_status_agrees_with_the_history()


def the_fleets_last_status_agrees_with_the_history() -> None:
    store = Store()
    status, history = fleet.latest(store, "study-try"), store.history(store.number("study-try"))
    assert status is not None and time.time() - 600 < status.time < time.time()
    assert (status.step, status.steps) == (len(history), 6) and status.step_rate > 0
    assert status.bytes_up >= sum(step.bytes_up for step in history) > 0
    assert status.bytes_down >= sum(step.bytes_down for step in history) > 0
    assert sum(client.bytes_up for client in status.clients) == status.bytes_up
    assert sum(client.bytes_down for client in status.clients) == status.bytes_down
    counters = store["study-try"].counters
    outcomes = ("taken", "refused", "malformed", "not_finite", "duplicates")
    answered = sum(client.updates + client.refused for client in status.clients)
    assert answered == sum(counters[name] for name in outcomes)
    assert [client.state for client in status.clients] == ["offline"] * 3 and status.online == 0
    for client in status.clients:
        assert client.last_seen is not None and status.time - 600 < client.last_seen <= status.time
        assert client.updates == 0 or client.round_trip is not None and client.round_trip > 0
    assert {alarm.kind for alarm in status.alarms} <= {"updates_refused"}


def test_a_new_study_is_small_and_ready(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", "new", "study", "--address", "127.0.0.1:7443"]) == 0
    assert "fedpace deploy try study -n 4" in capsys.readouterr().out
    assert len(Path("study/client.py").read_text("utf-8").splitlines()) <= 15
    read = StudyFolder.read("study")
    assert (read.algorithm.name, read.settings.clients, read.settings.rounds) == ("fedbuff", 4, 30)
    server, (client, data) = read.program.server_task(), read.program.local_task(2)
    assert server.layout == client.layout and data == 0 and client.samples(0) == 185
    assert server.initial(7).tobytes() == client.initial(7).tobytes() != server.initial(8).tobytes()
    assert set(client.evaluate(client.initial(0))) == {"loss", "accuracy"}
    assert main(["deploy", "new", "study"]) == 2
    assert "a folder without run.toml" in capsys.readouterr().err


def test_clients_are_enrolled_revoked_and_renewed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["deploy", "new", "study"])
    assert main(["deploy", "request", "hospital"]) == 0
    assert stat.S_IMODE(Path("hospital.key").stat().st_mode) == 0o600
    assert main(["deploy", "enrol", "hospital.request", "--study", "study", "--client", "3"]) == 0
    assert main(["deploy", "enrol", "--with-key", "--study", "study"]) == 0  # the first free number is 0
    bundles = Path("study/identities/bundles")
    assert sorted(path.name for path in bundles.iterdir()) == ["client-0.bundle", "client-3.bundle"]
    assert "PRIVATE KEY" in (bundles / "client-0.bundle").read_text("utf-8")
    assert "PRIVATE KEY" not in (bundles / "client-3.bundle").read_text("utf-8")
    assert main(["deploy", "renew", "3", "--study", "study"]) == 0
    assert main(["deploy", "renew", "--study", "study"]) == 0
    assert main(["deploy", "revoke", "3", "--study", "study"]) == 0
    capsys.readouterr()
    assert main(["deploy", "renew", "3", "--study", "study"]) == 2
    assert "must not be revoked" in capsys.readouterr().err
    assert main(["deploy", "enrol", "--study", "study"]) == 2
    assert main(["deploy", "enrol", "hospital.request", "--study", "elsewhere"]) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[run]\nalgorithm = 'fedavg'\n", "run.toml: .run. must be one with algorithm, clients, rounds"),
        ("[run", "run.toml must be TOML"),
        ("[runs]\n", "did you mean run. a table of run.toml must be one of "),
        ("[run]\nalgorithm='fedavg'\nclients=2\nrounds=3\nseeds=1\n", "did you mean seed"),
        (
            "[run]\nalgorithm='fedavg'\nclients='two'\nrounds=3\n",
            "run.clients must be a whole number; got 'two'",
        ),
        ("[run]\nalgorithm='fedavg('\nclients=2\nrounds=3\n", "algorithm must be written like fedbuff"),
        ("[run]\nalgorithm='exit()'\nclients=2\nrounds=3\n", "rule must be one of"),
        ("[run]\nalgorithm='TopK(0.1)'\nclients=2\nrounds=3\n", "algorithm must be such as fedavg"),
        (
            "[run]\nalgorithm='fedavg'\nclients=2\nrounds=3\n[server]\nlisten='here'\n",
            "HOST:PORT; got 'here'",
        ),
    ],
)
def test_what_is_wrong_in_a_study_is_said_in_one_line(text: str, words: str, home: Path) -> None:
    folder = study(home / "study", "fedavg")
    (folder / "run.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=words) as raised:
        StudyFolder.read(folder)
    assert "\n" not in str(raised.value)


def test_rules_of_ones_own_are_those_that_client_py_names(home: Path) -> None:
    folder = study(home / "study", "fedavg(client_lr=0.1, steps=1)")
    own = "from fedpace.server_opt import Momentum\nclass Slow(Momentum):\n    pass\nrules = {'Slow': Slow}\n"
    (folder / "client.py").write_text(own + TASK, encoding="utf-8")
    with (folder / "run.toml").open("a", encoding="utf-8") as file:
        file.write("[rules]\nserver_opt = 'Slow(lr=0.5)'\naggregate = 'Median()'\n")
    read = StudyFolder.read(folder)
    assert repr(read.algorithm.server_opt) == "Slow(lr=0.5, beta=0.0, nu=0.0)"
    assert read.plan.algorithm == read.algorithm


def test_a_client_py_that_lacks_something_says_what(home: Path) -> None:
    for text, words in (
        ("loss = 1\n", "must have model"),
        ("1/0\n", "cannot be imported: ZeroDivisionError"),
    ):
        Path("client.py").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=words):
            from fedpace.deploy.projects.program import Program

            Program("client.py")


@pytest.mark.parametrize("words", [["deploy", "try", "study", "-n", "2"], ["serve", "study", "--insecure"]])
def test_pacing_that_wants_more_clients_is_refused_before_anything_starts(
    words: list[str], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study(home / "study", "fedbuff(buffer=2, concurrency=4, client_lr=0.1, steps=1)")
    code, err = refused(words, capsys)
    assert code == 2 and err.count("\n") == 1 and "<= the number of clients (" in err
    assert not (home / "study" / "runs").exists()


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    code = main(words)
    return code, capsys.readouterr().err


def test_what_is_no_study_and_no_run_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study(home / "study", "fedavg(client_lr=0.1, steps=1)")
    for words, message in (
        (["serve", "nowhere"], "a study must be a folder with run.toml"),
        (["replay", "nowhere"], "RUN must be a deployed run, by name or folder"),
        (["replay", "study"], "RUN must be a deployed run, by name or folder"),
        (["join", "no.bundle", "--data", "study/client.py"], "no.bundle"),
        (
            ["join", "10.0.0.1:7443", "--data", "study/client.py", "--insecure", "0", "--state", "s"],
            "on this machine",
        ),
    ):
        code, err = refused(words, capsys)
        assert code == 2 and message in err and err.count("\n") == 1, words
