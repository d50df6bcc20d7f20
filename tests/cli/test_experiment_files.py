"""Experiment files say what a command line says, and every run can be written as one."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedpace as package
from fedpace.cli.experiment_file import words_of
from fedpace.cli.settings import parse_value
from fedpace.errors import ConfigError
from fedpace.plug_ins import PlugIn, function_at, module_at

MODULE = '''
from dataclasses import dataclass

import fedpace
from own_numbers import CENTRES

def task(seed):
    return fedpace.tasks.quadratics([centre + seed for centre in CENTRES])

def method(server_lr=1.0):
    return fedpace.algorithms.fedavg(client_lr=0.1, steps=2, batch_size=None, server_lr=server_lr)

@dataclass(frozen=True, slots=True)
class Halved:
    """Half of the update."""

    share: float = 0.5

    def init(self, x):
        return None

    def apply(self, x, delta, state):
        return x + self.share * delta, state

class Loose:
    pass
'''
SHARED = "client_lr = 0.1\nsteps = 2\nbatch_size = 'none'\n"
COMPARISON = f"""
task = "own_rules:task"
rounds = 4
seeds = 2
[algorithms.plain]
algorithm = "fedavg"
{SHARED}
[algorithms."half of it"]
algorithm = "fedavg"
server_opt = "own_rules:Halved()"
{SHARED}
[algorithms.own]
algorithm = "own_rules:method"
server_lr = 0.5
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder with an own module, away from the working directory."""
    place = tmp_path / "study"
    place.mkdir()
    (place / "own_rules.py").write_text(MODULE)
    (place / "own_numbers.py").write_text("CENTRES = [0.0, 1.0, 5.0]\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield place
    for name in ("own_rules", "own_numbers"):
        sys.modules.pop(name, None)


def written(folder: Path, text: str) -> Path:
    path = folder / "experiment.toml"
    path.write_text(text)
    return path


def model(path: Path) -> str:
    return json.loads(path.read_text())["model_sha256"]


# ------------------------------------------------------------ a file and the command line


def test_a_file_is_the_command_line_it_stands_for(tmp_path) -> None:
    text = """
    algorithm = "fedgm"
    task = "digits"
    evaluate_every = "5MB"
    track = ["mlflow:a", "wandb:b"]
    [parameters]
    beta = 0.5
    codec = "topk:0.1"
    """
    path = written(tmp_path, text)
    assert words_of(path, "run") == [
        "fedgm",
        "--task=digits",
        "--evaluate-every=5MB",
        "--track=mlflow:a",
        "--track=wandb:b",
        f"--modules={tmp_path}",
        "--set=beta=0.5",
        "--set=codec=topk:0.1",
    ]


def test_rows_of_a_comparison_have_their_own_settings(tmp_path) -> None:
    text = """
    rounds = 4
    target = { accuracy = 0.5 }
    [parameters]
    client_lr = 0.2
    [algorithms.fedbuff]
    [algorithms."FedAvg (slow)"]
    algorithm = "fedavg"
    client_lr = 0.1
    """
    assert words_of(written(tmp_path, text), "compare") == [
        "fedbuff",
        "FedAvg (slow)=fedavg",
        "--rounds=4",
        "--target=accuracy=0.5",
        f"--modules={tmp_path}",
        "--set=client_lr=0.2",
        "--set=FedAvg (slow).client_lr=0.1",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "algorithm = 'fedavg'\nround = 3",
            "did you mean rounds. a key of experiment.toml must be one of .*; got 'round'",
        ),
        (
            "algorithm = 'fedavg'\nrounds = 'three'",
            "experiment.toml: rounds must be a whole number; got 'three'",
        ),
        ("algorithm = 'fedavg'\nrounds = 0", "--rounds must be a whole number >= 1; got '0'"),
        ("rounds = 3", "experiment.toml must be one with algorithm, or with algorithms"),
        ("algorithms = ['fedavg', 'fedbuff']", "fedpace compare runs several"),
        ("algorithm = 'fedavg'\n[parameters]\nbta = 1", "parameter of fedavg must be one of .*got 'bta'"),
        ("algorithm = 'fedavg'\n[parameters]\nbeta = {a = 1}", "experiment.toml: parameters.beta must be"),
        ("[algorithms]\n'a=b' = {}", "text without ="),
        (
            "algorithm = 'fedavg'\nclients = 3\ntask = 'own_rules:task'",
            "clients must be left to own_rules:task",
        ),
        ("algorithm = fedavg", "must be TOML"),
    ],
)
def test_a_mistake_in_a_file_is_one_line(tmp_path, fedpace, text: str, message: str) -> None:
    said = fedpace("run", written(tmp_path, text), "--no-store")
    assert said.code == 2 and said.err.count("\n") == 1
    assert re.search(message, said.err)


def test_a_file_that_is_not_there_is_one_line(fedpace) -> None:
    said = fedpace("run", "nowhere.toml")
    assert (said.code, said.err) == (
        2,
        "fedpace run: an experiment file must be a file that exists; got 'nowhere.toml'\n",
    )


def test_words_after_a_file_change_it_and_save_as_writes_what_was_run(folder, fedpace, tmp_path) -> None:
    path = written(
        folder, f"algorithm = 'fedavg'\ntask = 'own_rules:task'\nrounds = 9\n[parameters]\n{SHARED}"
    )
    again, first, second = folder / "again.toml", tmp_path / "1.json", tmp_path / "2.json"
    common = ("--set", "server_opt=own_rules:Halved(0.25)", "--rounds", 3, "--quiet", "--no-store")
    assert fedpace("run", path, *common, "--save-as", again, "--json", first).code == 0
    assert fedpace("run", again, "--quiet", "--no-store", "--json", second).code == 0
    assert model(first) == model(second)
    assert len(json.loads(first.read_text())["history"]) == 3
    assert 'server_opt = "own_rules:Halved(0.25)"' in again.read_text()


def test_save_as_stays_beside_the_modules_it_names(folder, fedpace, tmp_path) -> None:
    path = written(folder, f"algorithm = 'fedavg'\ntask = 'own_rules:task'\n[parameters]\n{SHARED}")
    said = fedpace("run", path, "--save-as", tmp_path / "far.toml", "--no-store")
    assert said.code == 2 and "beside the modules that it names" in said.err
    assert not (tmp_path / "far.toml").exists()


# ------------------------------------------------------------ plug-ins


def test_a_comparison_of_own_rules_gives_the_numbers_of_its_python_twin(folder, fedpace, tmp_path) -> None:
    path = written(folder, COMPARISON)
    said = fedpace("compare", path, "--csv", tmp_path / "found.csv", "--no-store", "--quiet")
    assert said.code == 0, said.err
    with open(tmp_path / "found.csv") as file:
        found = {(line["row"], line["seed"]): float(line["loss"]) for line in csv.DictReader(file)}
    module = module_at("own_rules", folder)
    for seed in (0, 1):
        twin = package.simulate(module.method(0.5), module.task(seed), rounds=4, seed=seed)
        assert found["own", str(seed)] == pytest.approx(twin.metrics["loss"], rel=1e-12)
        assert found["half of it", str(seed)] == found["own", str(seed)]
        assert found["plain", str(seed)] != found["own", str(seed)]


def test_a_rule_inside_a_rule_may_be_ones_own(folder) -> None:
    value = parse_value("Stages(((3, own_rules:Halved(0.1)), (4, own_rules:Halved())))")
    assert isinstance(value, PlugIn)
    assert [rule.share for _, rule in value.built(folder).stages] == [0.1, 0.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("own_rules:Loose()", "must be a dataclass defined there"),
        ("own_rules:task(0)", "must be a dataclass defined there"),
        ("own_rules:dataclass()", "must be a dataclass defined there"),
        ("own_rules:Missing()", "own_rules must define Missing"),
        ("own_rules:Halved(open('x'))", "rule must be one of"),
        ("own_rules:Halved(more=1)", r"must be called as Halved\(share"),
        ("subprocess:Popen('ls')", "one of yours, not of Python's own"),
        ("nowhere_at_all:Rule()", "was not found in .* or among installed packages"),
    ],
)
def test_only_dataclasses_of_named_modules_are_called(folder, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PlugIn(text).built(folder)


def test_text_in_quotes_is_no_plug_in() -> None:
    assert parse_value("'own_rules:Halved()'") == "own_rules:Halved()"


def test_the_working_directory_is_never_looked_in(folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend("")
    with pytest.raises(ConfigError, match="among installed packages"):
        module_at("own_rules")
    assert sys.path[0] == ""
    assert module_at("own_rules", folder).Halved(0.5).share == 0.5


def test_a_module_that_fails_is_one_line_and_can_be_mended(folder) -> None:
    (folder / "own_rules.py").write_text("1 / 0")
    with pytest.raises(ConfigError, match="own_rules cannot be imported: ZeroDivisionError"):
        module_at("own_rules", folder)
    (folder / "own_rules.py").write_text("def task(seed): return seed")
    sys.path_importer_cache.clear()
    assert function_at("own_rules:task", folder)(3) == 3


def test_two_modules_of_one_name_are_told_apart(folder, tmp_path) -> None:
    module_at("own_rules", folder)
    (tmp_path / "own_rules.py").write_text("")
    with pytest.raises(ConfigError, match="named like no other"):
        module_at("own_rules", tmp_path)


def test_any_rule_of_a_named_algorithm_can_be_set(fedpace, tmp_path) -> None:
    small = ("--clients", 4, "--model", "softmax", "--rounds", 2, "--no-store", "--quiet", "--json")
    rules = {"plain": (), "median": ("--set", "aggregate=Median()"), "clip": ("--set", "clip=0.001")}
    models = {}
    for name, words in rules.items():
        assert fedpace("run", "fedavg", *words, *small, tmp_path / name).code == 0
        models[name] = model(tmp_path / name)
    assert len(set(models.values())) == 3
    said = fedpace("run", "fedavg", "--set", "aggregate=Median", *small, tmp_path / "x")
    assert (
        said.err == "fedpace run: did you mean Median()? "
        "aggregate must be a rule with its brackets, such as Median(); got 'Median'\n"
    )
    assert fedpace("run", "asysg", "--set", "aggregate=Median()", *small, tmp_path / "x").code == 0


# ------------------------------------------------------------ saved runs


def test_a_saved_run_is_exported_and_gives_the_same_numbers(folder, fedpace, tmp_path) -> None:
    words = ("--task", "own_rules:task", "--rounds", 3, "--seed", 4, "--modules", folder, "--quiet")
    rules = ("--set", "server_opt=own_rules:Halved()", "--set", "client_lr=0.1", "--set", "batch_size=none")
    assert fedpace("run", "fedavg", *words, *rules, "--name", "first", "--json", tmp_path / "1").code == 0
    out = folder / "first.toml"
    assert fedpace("runs", "export", "first", "-o", out, "--modules", folder).code == 0
    assert fedpace("run", out, "--quiet", "--no-store", "--json", tmp_path / "2").code == 0
    assert model(tmp_path / "1") == model(tmp_path / "2")


def test_a_run_of_a_python_program_is_exported_too(fedpace, tmp_path) -> None:
    task, population = package.tasks.quadratics([0.0, 2.0]), package.sim.Population.half_normal(2.0)
    algorithm = package.algorithms.fedbuff(client_lr=0.1, steps=2, batch_size=None, buffer=1, concurrency=2)
    run = package.simulate(algorithm, task, population, rounds=5, seed=3, evaluate_every="2s", store="mine")
    out = tmp_path / "mine.toml"
    assert fedpace("runs", "export", "mine", "-o", out).code == 0
    assert fedpace("run", out, "--quiet", "--no-store", "--json", tmp_path / "x").code == 0
    again = json.loads((tmp_path / "x").read_text())
    assert [step["virtual_seconds"] for step in again["history"]] == [r.virtual_seconds for r in run.history]
    assert again["final"]["loss"] == run.metrics["loss"]


def test_what_only_a_script_has_cannot_be_exported_and_says_so(fedpace, tmp_path, folder) -> None:
    module = module_at("own_rules", folder)
    algorithm = package.Algorithm(local=package.local.SGD(0.1, steps=1), server_opt=module.Halved())
    package.simulate(algorithm, module.task(0), rounds=1, store="scripted")
    said = fedpace("runs", "export", "scripted", "-o", tmp_path / "x.toml")
    assert said.code == 2 and "must be named as module:function to be in a file" in said.err


def test_resuming_asks_where_plug_ins_are_and_does_not_believe_the_store(folder, fedpace) -> None:
    words = ("--task", "own_rules:task", "--rounds", 2, "--modules", folder, "--set", "batch_size=none")
    assert fedpace("run", "fedavg", *words, "--name", "n", "--quiet").code == 0
    for name in ("own_rules", "own_numbers"):
        sys.modules.pop(name)
    sys.path.remove(str(folder))
    said = fedpace("resume", "n")
    assert said.code == 2 and "own_rules was not found among installed packages" in said.err
    assert fedpace("resume", "n", "--modules", folder, "--rounds", 4, "--quiet").code == 0


def test_stop_rules_are_options_and_keys_and_kept_with_the_run(fedpace, folder, tmp_path) -> None:
    text = "algorithm = 'fedavg'\ntask = 'own_rules:task'\nrounds = 9\nstop = { virtual_seconds = 4, patience = 8 }\n"
    path = written(folder, text + f"[parameters]\n{SHARED}")
    said = fedpace("run", path, "--name", "short", "--quiet", "--json", tmp_path / "1")
    assert said.code == 0 and "stopped after step 4: 4.00 s of virtual time are over" in said.err
    assert (
        fedpace("run", path, "--stop", "virtual_seconds=2", "--no-store", "--json", tmp_path / "2").code == 0
    )
    assert [len(json.loads((tmp_path / name).read_text())["history"]) for name in "12"] == [4, 2]
    out = folder / "short.toml"
    assert fedpace("runs", "export", "short", "-o", out, "--modules", folder).code == 0
    assert "stop = { virtual_seconds = 4, patience = 8 }" in out.read_text()
    assert fedpace("run", out, "--no-store", "--quiet", "--json", tmp_path / "3").code == 0
    assert model(tmp_path / "1") == model(tmp_path / "3")
    said = fedpace("resume", "short", "--modules", folder, "--quiet")
    assert said.code == 0 and "stopped after step 4" in said.err
    said = fedpace("run", path, "--stop", "patience=none")
    assert said.code == 2 and said.err.count("\n") == 1 and "patience=10" in said.err
