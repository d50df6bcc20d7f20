from __future__ import annotations

import argparse
import csv

import pytest

from fedpace.cli.verbs.sweep import axis

SMALL = ("--clients", 10, "--model", "softmax", "--rounds", 3, "--processes", 1)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("beta=0.7,0.9", [0.7, 0.9]),
        ("lr=0.1:0.3:0.1", [0.1, 0.2, 0.3]),  # in binary the last one would be missing
        ("lr=0.5:5.0:0.5", [0.5 * n for n in range(1, 11)]),
        ("steps=1:7:3", [1, 4, 7]),
        ("codec=TopK(ratio=0.1),none", [pytest.approx, "none"]),
        ("epochs=(1,2),(3,4)", [(1, 2), (3, 4)]),
        ("weighting=uniform", ["uniform"]),
    ],
)
def test_values_of_an_axis(text: str, values: list[object]) -> None:
    name, found = axis(text)
    assert name == text.partition("=")[0]
    if name == "codec":
        assert repr(found[0]).startswith("TopK(ratio=0.1") and found[1] is None
    else:
        assert found == values


@pytest.mark.parametrize("text", ["beta", "beta=", "=1", "lr=1:0:0.1", "lr=0:1:0", "lr=a:b:c", "x=Nope(1)"])
def test_axes_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be"):
        axis(text)


def test_a_sweep_shows_the_best_first_and_repeats_nothing(fedpace, tmp_path) -> None:
    words = ("sweep", "fedavg", "--grid", "client_lr=0.001,0.1", "server_lr=1.0", *SMALL)
    first = fedpace(*words, "--csv", tmp_path / "points.csv", "--plot", tmp_path / "map.png")
    assert first.code == 0
    rows = [line.split()[:2] for line in first.out.splitlines()[2:4]]
    assert rows == [["0.1", "1.0"], ["0.001", "1.0"]]
    assert "2/2" in first.err and first.err.count("\n") == 2
    with open(tmp_path / "points.csv", newline="") as file:
        points = list(csv.DictReader(file))
    assert [point["client_lr"] for point in points] == ["0.1", "0.001"]
    assert float(points[0]["accuracy"]) > float(points[1]["accuracy"])
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    again = fedpace(*words, "--quiet")
    assert again.out == first.out and again.err == ""  # real seconds are those of the first time
    assert len(fedpace("runs", "list").out.splitlines()) == 4  # header, rule, two runs


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--grid", "betta=0.9"], "parameter of fedavg must be one of "),
        (
            ["--grid", "beta=0.9", "--metric", "acuracy"],
            "did you mean accuracy? metric must be one of accuracy, ",
        ),
        (
            ["--grid", "server_lr=1", "--set", "server_lr=2"],
            "server_lr must be in --grid or in --set; got both",
        ),
    ],
)
def test_bad_input_is_one_line(fedpace, words: list[str], message: str) -> None:
    said = fedpace(
        "sweep", "fedavg" if "betta" in words[1] or "server" in words[1] else "fedgm", *words, *SMALL
    )
    assert said.code == 2 and said.out == ""
    assert said.err.startswith(f"fedpace sweep: {message}") and said.err.count("\n") == 1
