"""Runs from the command line: kept, listed, resumed, exported, deleted."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import pytest

from fedpace.cli import VERBS
from fedpace.cli.entry import parser_of
from fedpace.disk.locks import locked
from fedpace.record.store.store import Store
from results import unnamed

SMALL = ("--clients", 10, "--model", "softmax", "--rounds", 4, "--quiet")
PAGE = Path(__file__).parents[2] / "docs" / "runs.md"


def test_every_run_is_kept_under_a_name_of_its_own(fedpace) -> None:
    said = fedpace("run", "fedavg", *SMALL[:-1])
    assert "saved as" in said.out and "fedavg-digits-1" in said.out
    fedpace("run", "fedavg", *SMALL, "--name", "night")
    fedpace("run", "fedavg", *SMALL, "--no-store")
    assert [(entry.name, entry.status) for entry in Store().entries()] == [
        ("fedavg-digits-1", "done"),
        ("night", "done"),
    ]


def test_a_kept_run_is_described_whole(fedpace) -> None:
    fedpace("run", "fedgm", *SMALL, "--name", "night", "--set", "beta=0.5")
    entry = Store()["night"]
    assert "Momentum(lr=1.0, beta=0.5" in entry.experiment["algorithm"]
    assert entry.experiment["task"].startswith("load('digits', clients=10")
    assert entry.about["versions"]["fedpace"] and entry.about["machine"]["cores"]
    assert entry.about["papers"] == ["sun2024", "ma2019"]
    said = fedpace("runs", "show", "night").out
    assert all(word in said for word in ("night", "fedpace run fedgm", "beta=0.5", "accuracy", "numpy"))


def test_its_arguments_make_it_again(fedpace, tmp_path) -> None:
    devices = tmp_path / "devices.csv"
    devices.write_text("client,compute_s\n" + "".join(f"{n},{n + 1}\n" for n in range(10)))
    words = ("--set", "codec=TopK(ratio=0.5)", "--set", "clients_per_round=4", "--population", devices)
    fedpace("run", "fedcams", *SMALL, *words, "--name", "night", "--json", tmp_path / "a.json")
    arguments = Store()["night"].arguments
    assert str(devices) in arguments
    fedpace("run", *arguments, "--no-store", "--quiet", "--json", tmp_path / "b.json")
    assert unnamed(tmp_path / "a.json") == unnamed(tmp_path / "b.json")


def test_a_finished_run_shows_its_result_again(fedpace, tmp_path) -> None:
    first = fedpace("run", "fedavg", *SMALL[:-1], "--name", "night", "--json", tmp_path / "a.json")
    again = fedpace("resume", "night", "--json", tmp_path / "b.json")
    assert again.code == 0 and again.out == first.out
    assert unnamed(tmp_path / "a.json") == unnamed(tmp_path / "b.json")


def test_a_diverged_run_is_kept_as_such(fedpace) -> None:
    said = fedpace("run", "fedavg", "--clients", 10, "--rounds", 4, "--quiet", "--set", "server_lr=1e30")
    assert said.code == 3
    [entry] = Store().entries()
    assert entry.status == "diverged" and "not finite" in entry.note


def test_an_interrupted_run_goes_on_to_the_same_file(fedpace, tmp_path, monkeypatch) -> None:
    from fedpace.record.store.writer import Writer

    fedpace("run", "fedgm", *SMALL, "--no-store", "--json", tmp_path / "whole.json")
    recorded = Writer.recorded

    def interrupted(self, record, x) -> None:
        recorded(self, record, x)
        if record.version == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "recorded", interrupted)
        words = ("run", "fedgm", *SMALL, "--name", "night", "--checkpoint-every", 1)
        assert fedpace(*words).code == 130
    store = Store()
    assert store["night"].status == "interrupted"
    assert [record.version for record in store.history(store["night"].id)] == [1, 2, 3]
    assert (store.folder("night") / "checkpoint.safetensors").exists()
    assert fedpace("resume", "night", "--quiet", "--json", tmp_path / "resumed.json").code == 0
    assert unnamed(tmp_path / "resumed.json") == unnamed(tmp_path / "whole.json")
    assert sorted(file.name for file in store.folder("night").iterdir()) == [
        "lock",
        "model.safetensors",
        "owner",
        "timeline.safetensors",
    ]
    assert [record.version for record in store.history(store["night"].id)] == [1, 2, 3, 4]


def test_a_stopped_run_ends_well_and_is_resumed_to_the_same_file(fedpace, tmp_path, monkeypatch) -> None:
    from fedpace.errors import Stop
    from fedpace.record.store import artifacts
    from fedpace.record.store.writer import Writer

    fedpace("run", "fedgm", *SMALL, "--no-store", "--json", tmp_path / "whole.json")
    recorded = Writer.recorded

    def enough(self, record, x) -> None:
        recorded(self, record, x)
        if record.version == 3:
            raise Stop("good enough")

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "recorded", enough)
        said = fedpace("run", "fedgm", *SMALL, "--name", "night", "--quiet")
    assert said.code == 0 and "fedpace run: stopped after step 3: good enough" in said.err
    store = Store()
    entry = store["night"]
    assert (entry.status, entry.note) == ("stopped", "good enough")
    assert artifacts.load(store, entry).stopped == "good enough"
    assert [record.version for record in store.history(entry.id)] == [1, 2, 3]
    assert "stopped" in fedpace("runs", "list").out
    assert fedpace("resume", "night", "--quiet", "--json", tmp_path / "resumed.json").code == 0
    assert unnamed(tmp_path / "resumed.json") == unnamed(tmp_path / "whole.json")
    assert (store["night"].status, store["night"].note) == ("done", "")
    assert artifacts.load(store, store["night"]).stopped is None


def test_a_run_killed_before_its_first_checkpoint_starts_over(fedpace, tmp_path) -> None:
    """What a killed process had put into the store is taken back, not doubled."""
    assert (
        fedpace("run", "fedavg", *SMALL, "--name", "whole", "--quiet", "--json", tmp_path / "a.json").code
        == 0
    )
    store = Store()
    whole, arguments = store["whole"], store["whole"].arguments
    facts = {"algorithm": "fedavg", "task": "digits", "seed": whole.seed, "rounds": whole.rounds}
    about = {"fingerprint": whole.fingerprint, "experiment": whole.experiment, "arguments": arguments}
    killed = store.begin(name="killed", **facts, **about)
    store.add(killed.id, store.history(whole.id)[:2])
    assert fedpace("resume", "killed", "--quiet", "--json", tmp_path / "b.json").code == 0
    assert unnamed(tmp_path / "a.json") == unnamed(tmp_path / "b.json")
    assert store["killed"].status == "done" and store.history(killed.id) == store.history(whole.id)


def test_a_run_somebody_works_on_is_not_deleted_whatever_its_state(fedpace) -> None:
    assert fedpace("run", "fedavg", *SMALL, "--name", "mine", "--quiet").code == 0
    with locked(Store().folder("mine")):
        said = fedpace("runs", "delete", "mine")
    assert said.code == 2 and "must be one that is not running; got 'mine'" in said.err


def test_a_damaged_model_is_one_line(fedpace) -> None:
    assert fedpace("run", "fedavg", *SMALL, "--name", "mine", "--quiet").code == 0
    path = Store().folder("mine") / "model.safetensors"
    path.write_bytes(path.read_bytes()[:40])
    said = fedpace("runs", "show", "mine")
    assert said.code == 2 and "are damaged" in said.err and said.err.count("\n") == 1


def test_names_of_another_databases_runs_are_left_alone(tmp_path) -> None:
    facts = {
        "name": None,
        "algorithm": "a",
        "task": "b",
        "seed": 0,
        "rounds": 1,
        "fingerprint": "",
        "experiment": {},
    }
    one = Store(tmp_path, f"sqlite:///{tmp_path / 'one.sqlite'}").begin(**facts)
    (tmp_path / "runs" / one.name).mkdir(parents=True)
    other = Store(tmp_path, f"sqlite:///{tmp_path / 'other.sqlite'}").begin(**facts)
    assert (one.name, other.name) == ("a-b-1", "a-b-2") and (tmp_path / "runs" / one.name).exists()


def test_histories_are_exported_as_one_table(fedpace, tmp_path) -> None:
    for name in ("a", "b"):
        fedpace("run", "fedavg", *SMALL, "--name", name)
    assert fedpace("runs", "export", "-o", tmp_path / "all.csv").code == 0
    with open(tmp_path / "all.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["name"], row["version"]) for row in rows] == [
        (n, str(v)) for n in "ab" for v in (1, 2, 3, 4)
    ]
    assert float(rows[0]["loss"]) == Store().history(1)[0].metrics["loss"]
    fedpace("runs", "export", "b", "-o", tmp_path / "b.csv")
    assert len((tmp_path / "b.csv").read_text().splitlines()) == 5


def test_parquet_has_the_same_table(fedpace, tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    fedpace("run", "fedavg", *SMALL, "--name", "a")
    fedpace("runs", "export", "-o", tmp_path / "a.parquet")
    table = pandas.read_parquet(tmp_path / "a.parquet")
    assert table["version"].tolist() == [1, 2, 3, 4] and table["clients"][0].tolist() == list(range(10))


def test_deleted_runs_are_gone(fedpace) -> None:
    fedpace("run", "fedavg", *SMALL, "--name", "night")
    assert fedpace("runs", "delete", "night").code == 0
    assert "no saved runs" in fedpace("runs").out
    assert not Store().folder("night").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["resume", "nigth"], "resume: did you mean night? run must be one of night; got 'nigth'"),
        (["run", "fedavg", "--name", "night"], "run: name must be one that no run has yet; got 'night'"),
        (["run", "fedavg", "--name", "a//b"], "run: name must be letters, digits"),
        (["run", "fedavg", "--name", "x", "--no-store"], "run: --name must go with a run that is saved"),
        (
            ["run", "fedavg", "--checkpoint-every", "soon"],
            "run: checkpoint every must be steps (100) or real",
        ),
        (
            ["runs", "export", "-o", "a.xls"],
            "runs: --output must end in .csv, .parquet or .toml; got 'a.xls'",
        ),
        (["report", "day"], "report: run must be one of night; got 'day'"),
    ],
)
def test_bad_input_is_one_line(fedpace, tmp_path, monkeypatch, words: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    fedpace("run", "fedavg", *SMALL, "--name", "night")
    said = fedpace(*words, *(SMALL if words[0] == "run" else ()))
    assert said.code == 2 and said.out == ""
    assert said.err.startswith(f"fedpace {message}") and said.err.count("\n") == 1


def test_without_a_store_a_run_goes_on_and_says_so(fedpace, tmp_path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "file"))
    said = fedpace("run", "fedavg", *SMALL)
    assert said.code == 0 and "the run is not saved" in said.err
    assert fedpace("run", "fedavg", *SMALL, "--name", "night").code == 2


def test_every_command_of_the_manual_parses() -> None:
    lines = [
        line.partition("  #")[0].strip()
        for block in re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(lines) >= 6
    for line in lines:
        _, verb, *words = shlex.split(line)
        assert verb in VERBS
        parser_of(verb).parse_args(words)


def test_a_run_gets_longer_and_equals_one_of_that_length(fedpace, tmp_path) -> None:
    words = ("run", "fedgm", *SMALL, "--set", "beta=0.5")
    fedpace(*words, "--name", "night")
    assert fedpace("resume", "night", "--rounds", 6, "--quiet", "--json", tmp_path / "a.json").code == 0
    longer = [
        *words[:2],
        "--clients",
        10,
        "--model",
        "softmax",
        "--rounds",
        6,
        "--quiet",
        "--set",
        "beta=0.5",
    ]
    fedpace(*longer, "--no-store", "--json", tmp_path / "b.json")
    assert unnamed(tmp_path / "a.json") == unnamed(tmp_path / "b.json")
    entry = Store()["night"]
    assert entry.rounds == 6 and entry.arguments[entry.arguments.index("--rounds") + 1] == "6"
    said = fedpace("resume", "night", "--rounds", 5)
    assert said.code == 2 and "rounds must be a whole number >= 6; got 5" in said.err


def test_a_run_of_a_python_program_is_resumed_by_its_name(fedpace, tmp_path) -> None:
    from fedpace import algorithms, simulate, tasks

    task = tasks.load("digits", clients=10, model="softmax")
    run = simulate(algorithms.fedgm(), task, rounds=4, store="from/python")
    assert fedpace("resume", "from/python", "--quiet", "--json", tmp_path / "a.json").code == 0
    assert (tmp_path / "a.json").read_text() == run.to_json(named=True)
    assert fedpace("resume", "from/python", "--rounds", 6, "--quiet").code == 0
    assert len(Store().history(Store()["from/python"].id)) == 6
