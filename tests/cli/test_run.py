"""`fedpace run` on a small task, good input and bad."""

from __future__ import annotations

import json
import os

import pytest
from safetensors.numpy import load_file

from fedpace.cli import experiment
from fedpace.cli.verbs import run as verb
from fedpace.errors import InterruptedRun
from results import unnamed

SMALL = ("--clients", 10, "--model", "softmax", "--rounds", 3)


def test_the_json_holds_the_run(fedpace, tmp_path) -> None:
    said = fedpace("run", "fedgm", *SMALL, "--seed", 5, "--json", tmp_path / "r.json", "--quiet")
    assert (said.code, said.out, said.err) == (0, "", "")
    data = json.loads((tmp_path / "r.json").read_text(), parse_constant=pytest.fail)
    assert [data[key] for key in ("algorithm", "task", "seed", "rounds")] == ["fedgm", "digits", 5, 3]
    assert [step["version"] for step in data["history"]] == [1, 2, 3]
    assert sum(step["bytes_up"] for step in data["history"]) == data["final"]["bytes_up"] > 0
    assert data["history"][-1]["metrics"]["accuracy"] == data["final"]["accuracy"]
    assert data["final"]["virtual_seconds"] == 3.0


def test_the_same_seed_writes_the_same_bytes_and_another_does_not(fedpace, tmp_path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert (
            fedpace("run", "fedavg", *SMALL, "--seed", seed, "--json", tmp_path / name, "--quiet").code == 0
        )
    a, b, c = (unnamed(tmp_path / name) for name in "abc")
    assert a == b
    assert a.replace(b'"seed": 1', b"") != c.replace(b'"seed": 2', b"")


def test_progress_and_result_are_shown_apart(fedpace) -> None:
    said = fedpace("run", "fedgm", *SMALL)
    assert said.code == 0
    lines = said.err.splitlines()
    assert lines[0] == "fedgm on digits, 10 clients"
    assert [line.split()[1] for line in lines[1:]] == ["1/3", "2/3", "3/3"]
    assert "accuracy" in said.out and "fedgm on digits" in said.out and "uploaded" in said.out


def test_everything_that_can_be_written(fedpace, tmp_path) -> None:
    asked = {option: tmp_path / name for option, name in [("--plot", "p.png"), ("--timeline", "t.csv")]}
    words = [word for pair in asked.items() for word in pair]
    said = fedpace(
        "run",
        "fedbuff",
        *SMALL,
        "--set",
        "buffer=2",
        "--set",
        "concurrency=4",
        *words,
        "--save",
        tmp_path / "run",
        "--quiet",
    )
    assert said.code == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "t.csv").read_text().startswith("client,start,end,kind,")
    tensors = load_file(tmp_path / "run" / "model.safetensors")
    assert sum(tensor.size for tensor in tensors.values()) == 64 * 10 + 10
    assert fedpace("timeline", tmp_path / "t.csv").code == 0
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")


def test_schedules_learn_the_length_of_the_run(fedpace) -> None:
    """multistage_fedgm cuts `--rounds` into its stages without being told twice."""
    args = verb_args("multistage_fedgm", "--rounds", "70")
    [algorithm] = experiment.make_algorithms(["multistage_fedgm"], args).values()
    assert algorithm.server_opt.ends[-1] == 70


def verb_args(*words: str):
    from fedpace.cli.parser import Parser

    parser = Parser()
    verb.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fedgmm"], "did you mean fedgm? algorithm must be one of .*; got 'fedgmm'"),
        (["fedgm", "--task", "digit"], "did you mean digits? task must be one of .*; got 'digit'"),
        (["fedopt"], "did you mean fedadam? algorithm must be one of .*; got 'fedopt'"),
        (["FedGM"], "did you mean fedgm? algorithm must be one of .*; got 'FedGM'"),
        (["fedgm", "--task", "MNIST"], "did you mean mnist? task must be one of .*; got 'MNIST'"),
        (["fedgm", "--task", "femnist"], "did you mean leaf:PATH? task must be one of .*; got 'femnist'"),
        (["fedgm", "--model", "lenet"], "did you mean cnn? model must be one of .*; got 'lenet'"),
        (
            ["fedgm", "--lr", "1"],
            "did you mean --set client_lr=VALUE? option must be one of .*; got '--lr'",
        ),
        (
            ["fedgm", "--set", "lr=1"],
            "did you mean client_lr? parameter of fedgm must be one of .*; got 'lr'",
        ),
        (
            ["fedgm", "--partition", "dir:0.1"],
            "did you mean dirichlet:0.1? partition must be .*; got 'dir:0.1'",
        ),
        (
            ["fedgm", "--partition", "dirchlet:0.5"],
            "did you mean dirichlet:0.5? partition must be .*; got 'dirchlet:0.5'",
        ),
        (["fedgm", "--model", "mpl"], "did you mean mlp? model must be one of .*; got 'mpl'"),
        (
            ["fedgm", "--set", "bta=0.9"],
            "did you mean beta? parameter of fedgm must be one of .*; got 'bta'",
        ),
        (["fedgm", "--set", "beta"], "--set must be name=value; got 'beta'"),
        (["fedgm", "--set", "beta=[1,"], "--set beta: value must be .*; got '[1,'"),
        (["fedgm", "--set", "beta=1.2"], "Momentum.beta must be in [0, 1); got 1.2"),
        (["fedgm", "--set", "client_lr=fast"], "client_lr must be a number > 0; got 'fast'"),
        (["fedgm", "--clients", "0"], "--clients must be a whole number >= 1; got '0'"),
        (["fedgm", "--rounds", "0"], "--rounds must be a whole number >= 1; got '0'"),
        (["fedgm", "--rounds", "ten"], "--rounds must be a whole number >= 1; got 'ten'"),
        (["fedgm", "--seed", "-1"], "--seed must be a whole number >= 0; got '-1'"),
        (
            ["fedgm", "--clients", "5", "--set", "clients_per_round=6"],
            "clients_per_round must be <= .*5.*; got 6",
        ),
        (["fedgm", "--partition", "dirichlet:x"], "partition must look like .*; got 'dirichlet:x'"),
        (["fedgm", "--population", "fast"], "--population must be .*; got 'fast'"),
        (["fedgm", "--population", "half-norml:5"], "did you mean half-normal:5? --population must be .*"),
        (
            ["fedgm", "--set", "steps=1", "--set", "epochs=2"],
            "local work must be .*; got steps=1 and epochs=2",
        ),
        (["fedgm", "--compute", "gpu"], "compute must be one of .*; got 'gpu'.*"),
        (["fedgm", "--evaluate-every", "x"], "evaluate_every must be .*; got 'x'"),
        (["fedgm", "--json", "no/such/folder/r.json"], "--json must be a file that can be written .*"),
        (["fedgm", "--plot", "p.xyz"], "--plot must be a file that ends in .*; got 'p.xyz'"),
        (["fedgm", "--round", "5"], "did you mean --rounds? option must be one of .*; got '--round'"),
        (["fedgm", "extra"], "argument must be among those that --help lists; got 'extra'"),
        (["fedgm", "--rounds"], "--rounds expected one argument"),
        ([], "the following arguments are required: ALGORITHM"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(fedpace, tmp_path, monkeypatch, words, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    said = fedpace("run", *words)
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert said.out == ""
    pattern = "fedpace run: " + message
    assert matches(pattern, said.err.removesuffix("\n")), said.err
    assert os.listdir(tmp_path) == []


def matches(pattern: str, text: str) -> bool:
    """Equal, where `.*` stands for anything."""
    at = 0
    for piece in pattern.split(".*"):
        found = text.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return text.startswith(pattern.split(".*")[0]) and (pattern.endswith(".*") or at == len(text))


def test_a_diverged_run_is_exit_code_3_and_what_was_learned_is_written(fedpace, tmp_path) -> None:
    """A server rate of 1e15 makes the network's outputs overflow after a step or two."""
    words = ("--clients", 10, "--model", "mlp", "--set", "server_lr=1e15", "--rounds", 500)
    said = fedpace("run", "fedavg", *words, "--json", tmp_path / "r.json", "--quiet")
    assert said.code == 3
    assert said.err.startswith("fedpace run: ") and said.err.count("\n") == 1
    data = json.loads((tmp_path / "r.json").read_text(), parse_constant=pytest.fail)
    assert 0 < len(data["history"]) < 500
    assert sum(step["bytes_up"] for step in data["history"]) == data["final"]["bytes_up"]


def test_a_stalled_run_is_exit_code_2_and_what_was_learned_is_written(fedpace, tmp_path) -> None:
    """Everybody leaves after 2.5 seconds: two rounds of one second each are done."""
    (tmp_path / "windows.csv").write_text("client,from,to\n" + "".join(f"{c},0,2.5\n" for c in range(10)))
    said = fedpace(
        "run",
        "fedavg",
        *SMALL,
        "--population",
        tmp_path / "windows.csv",
        "--json",
        tmp_path / "r.json",
        "--quiet",
    )
    assert said.code == 2 and said.err.count("\n") == 1
    assert len(json.loads((tmp_path / "r.json").read_text())["history"]) == 2


def test_an_interrupted_run_writes_what_was_learned(fedpace, tmp_path, monkeypatch) -> None:
    from fedpace.record.run.reporter import Reporter

    stepped = Reporter.stepped

    def ctrl_c(self, step, now, tally) -> None:
        stepped(self, step, now, tally)
        if step.version == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Reporter, "stepped", ctrl_c)
    said = fedpace("run", "fedavg", *SMALL, "--json", tmp_path / "r.json", "--quiet")
    how = "after step 2; to continue: fedpace resume fedavg-digits-1"
    assert (said.code, said.err) == (130, f"fedpace run: interrupted {how}\n")
    assert len(json.loads((tmp_path / "r.json").read_text())["history"]) == 2


def test_an_interruption_still_is_a_keyboard_interrupt() -> None:
    assert issubclass(InterruptedRun, KeyboardInterrupt)


def test_what_was_refused_leaves_nothing_behind(fedpace) -> None:
    refused = fedpace("run", "fedavg", *SMALL, "--compute", "gpu", "--name", "mine")
    assert refused.code == 2 and "compute must be one of" in refused.err
    assert "mine" not in fedpace("runs", "list").out
    assert fedpace("run", "fedavg", *SMALL, "--name", "mine", "--quiet").code == 0


def test_default_sizes_fit_a_small_crowd(fedpace) -> None:
    for algorithm in ("fedbuff", "fedasync", "defedavg_iid"):
        said = fedpace("run", algorithm, "--clients", 5, "--model", "softmax", "--rounds", 2, "--quiet")
        assert (said.code, said.err) == (0, "")


def test_a_network_that_cannot_take_a_single_sample_is_refused(fedpace) -> None:
    """ResNet-18 leaves a map of 1x1 of a digit of 8x8: batch normalisation needs two of them."""
    said = fedpace("run", "fedavg", *SMALL[:2], "--model", "resnet18")
    assert said.code == 2 and "model resnet18 does not fit inputs of shape (1, 8, 8)" in said.err
    assert said.err.count("\n") == 1


def test_a_warning_is_one_line_too(fedpace) -> None:
    said = fedpace("run", "fedgm", *SMALL, "--set", "nu=1.5", "--quiet")
    assert (said.code, said.err) == (0, "fedpace run: note: Momentum.nu is usually in [0, 1]; got 1.5\n")
