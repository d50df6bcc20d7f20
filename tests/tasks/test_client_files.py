"""Data of one's own on the disk: a folder of one file per client, and LEAF's JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace.errors import ConfigError
from fedpace.tasks import load

Part = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def samples(seed: int, count: int, shape: tuple[int, ...] = (3,)) -> Part:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, *shape)).astype(np.float32), rng.integers(3, size=count)


def write_csv(path: Path, part: Part) -> None:
    x, y = part
    lines = [
        "a,label,b,c",
        *(f"{r[0]!r},{label},{r[1]!r},{r[2]!r}" for r, label in zip(x.tolist(), y, strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three clients of 9, 7 and 8 samples, one of them as a table."""
    home = tmp_path / "hospitals"
    home.mkdir()
    for name, seed, count in (("berlin", 0, 9), ("oslo", 1, 7)):
        x, y = samples(seed, count)
        np.savez(home / f"{name}.npz", x=x, y=y)
    write_csv(home / "paris.csv", samples(2, 8))
    np.savez_compressed(home / "test.npz", **dict(zip("xy", samples(3, 20), strict=True)))
    (home / "README.txt").write_text("not a client")
    return home


def test_every_file_is_a_client(folder: Path) -> None:
    """The largest first, as in every natural split; numbers are taken as they are."""
    task = load(f"folder:{folder}", model="softmax")
    assert task.client_names == ("berlin", "paris", "oslo") and task.sizes == (9, 8, 7)
    for client, (seed, count) in enumerate(((0, 9), (2, 8), (1, 7))):
        inputs, targets = task.client_data(client).take(np.arange(count))
        np.testing.assert_array_equal(inputs.numpy(), samples(seed, count)[0])
        np.testing.assert_array_equal(targets.numpy(), samples(seed, count)[1])
    np.testing.assert_array_equal(task.test.take(np.arange(20))[0].numpy(), samples(3, 20)[0])
    assert task.name == "hospitals" and task.layout.size == 3 * 3 + 3


def test_it_is_an_experiment_like_others(folder: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    """In Python, on the command line from any folder, and from a file beside the data."""
    from fedpace.cli import main

    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "home"))
    run = fedpace.simulate(fedpace.algorithms.fedavg(), load(f"folder:{folder}", model="softmax"), rounds=2)
    monkeypatch.chdir(tmp_path)
    words = ["run", "fedavg", "--task", "folder:hospitals", "--model", "softmax", "--rounds", "2", "--quiet"]
    assert main([*words, "--name", "one", "--save-as", "study.toml"]) == 0
    monkeypatch.chdir("/")
    (tmp_path / "own.toml").write_text(
        'algorithm = "fedavg"\ntask = "folder:hospitals"\nmodel = "softmax"\nrounds = 2\nname = "two"\n'
    )
    assert main(["run", str(tmp_path / "own.toml"), "--quiet"]) == 0
    assert main(["run", str(tmp_path / "study.toml"), "--name", "three", "--quiet"]) == 0
    assert main(["resume", "one", "--rounds", "3", "--quiet"]) == 0
    saved = fedpace.runs()
    for name in ("two", "three"):
        np.testing.assert_array_equal(saved.open(name).load().model, run.model)
    assert (
        len(saved.open("one").load().history) == 3
        and "data_sha256=" in saved.open("one").entry.experiment["task"]
    )


def test_its_split_is_shown(folder: Path, capsys) -> None:
    from fedpace.cli import main

    assert main(["data", "show", f"folder:{folder}"]) == 0
    said = capsys.readouterr().out
    assert "hospitals, Natural()" in said and said.split("samples")[1].split()[:3] == ["7", "8", "9"]


def test_other_files_are_another_experiment(folder: Path) -> None:
    from fedpace.study.rebuild import task_from

    text = repr(load(f"folder:{folder}"))
    assert repr(task_from(text)) == text
    write_csv(folder / "paris.csv", samples(9, 8))
    with pytest.raises(ConfigError, match="as they were, sha256"):
        task_from(text)


def test_test_data_of_the_clients_own_are_all_clients_test_data(tmp_path: Path) -> None:
    for client in range(2):
        x, y = samples(client, 6, (1, 4, 4))
        np.savez(tmp_path / f"c{client}.npz", x=x[:4], y=y[:4], x_test=x[4:], y_test=y[4:])
    task = load(f"folder:{tmp_path}", model="softmax")
    assert len(task.test) == 4 and task.layout.size == 16 * 3 + 3
    spread = task.evaluate_clients(task.initial(0))
    x, y = samples(1, 6, (1, 4, 4))
    import torch

    with torch.no_grad():
        right = (task.network.eval()(torch.from_numpy(x[4:])).argmax(1).numpy() == y[4:]).mean()
    assert spread.values[1] == pytest.approx(right)


def test_files_that_make_no_sense_are_refused_in_one_line(folder: Path, tmp_path: Path) -> None:
    def refused(message: str, place: Path = folder) -> None:
        with pytest.raises(ConfigError, match=message) as caught:
            load(f"folder:{place}")
        assert "\n" not in str(caught.value)

    refused("data must be in a folder that exists", tmp_path / "none")
    (tmp_path / "empty").mkdir()
    refused(r"files in .*empty must be 1 to 100,000, \*.npz or \*.csv; got 0", tmp_path / "empty")
    good = (folder / "paris.csv").read_text()
    for text, message in (
        ("a,b\n1,2\n", "columns of paris.csv must be among them one of label"),
        ("a,b,c,label\n1,2,3\n", "paris.csv line 2 must be of 4 values"),
        ("a,b,c,label\n1,2,x,0\n", "paris.csv must be numbers in lines of one length"),
        ("a,b,c,label\n1,2,nan,0\n", "samples of paris.csv must be finite"),
        ("a,b,c,label\n1,2,3,0.5\n", "labels of paris.csv must be whole numbers"),
        ("a,b,c,label\n1,2,3,-1\n", "labels of paris.csv must be whole numbers"),
        ("a,b,label\n1,2,0\n", r"samples of hospitals must be of one shape, \(3,\)"),
    ):
        (folder / "paris.csv").write_text(text)
        refused(message)
    (folder / "paris.csv").write_text(good)
    np.savez(folder / "paris.npz", x=np.ones((2, 3)), y=np.zeros(2))
    refused("clients in .* must be one file each")
    (folder / "paris.npz").unlink()
    np.savez(folder / "oslo.npz", x=np.array([{}], dtype=object), y=np.zeros(1))
    refused("oslo.npz x must be numbers")
    np.savez(folder / "oslo.npz", x=np.ones((2, 3)))
    refused("oslo.npz must be an .npz with x and y")
    (folder / "oslo.npz").write_bytes(b"PK")
    refused("oslo.npz is damaged")
    (folder / "oslo.npz").unlink()
    (folder / "test.npz").unlink()
    refused("hospitals must be with test data")


# ------------------------------------------------------------ LEAF


def leaf(home: Path, part: str, users: dict[str, Part], file: str = "all_data_0.json") -> None:
    (home / "data" / part).mkdir(parents=True, exist_ok=True)
    data = {user: {"x": x.reshape(len(x), -1).tolist(), "y": y.tolist()} for user, (x, y) in users.items()}
    whole = {"users": list(users), "num_samples": [len(y) for _, y in users.values()], "user_data": data}
    (home / "data" / part / file).write_text(json.dumps(whole))


def test_leafs_users_are_clients(tmp_path: Path) -> None:
    """FEMNIST's 784 numbers are images of 28x28; users may be in several files."""
    parts = {user: samples(seed, 4 + seed, (784,)) for seed, user in enumerate(("f0001", "f0002", "f0003"))}
    leaf(tmp_path, "train", {user: parts[user] for user in ("f0003", "f0001")})
    leaf(tmp_path, "train", {"f0002": parts["f0002"]}, "all_data_1.json")
    leaf(tmp_path, "test", {user: samples(9, 3, (784,)) for user in (*parts, "f0099")})  # one is new
    task = load(f"leaf:{tmp_path}", model="softmax", clients=2)
    assert task.client_names == ("f0003", "f0002") and task.sizes == (6, 5)
    inputs, targets = task.client_data(0).take(np.arange(6))
    assert tuple(inputs.shape) == (6, 1, 28, 28)
    np.testing.assert_array_equal(inputs.numpy().reshape(6, 784), parts["f0003"][0])
    np.testing.assert_array_equal(targets.numpy(), parts["f0003"][1])
    assert load(f"leaf:{tmp_path}", model="softmax").clients == 3
    assert task.evaluate_clients(task.initial(0)).values.shape == (2,)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "must be LEAF's JSON"),
        ("[1]", "must be an object with user_data"),
        ('{"user_data": {"a": {"x": ["to be"], "y": ["o"]}}}', "must be numbers of one shape"),
        ('{"user_data": {"a": {"x": [[1], [1, 2]], "y": [0, 1]}}}', "must be numbers of one shape"),
        ('{"user_data": {"a": {"x": [[1, 2]], "y": [0, 1]}}}', "must be one label per sample"),
        ("[" * 100_000, "must be LEAF's JSON"),
    ],
)
def test_what_is_not_leafs_is_refused(tmp_path: Path, content: str, message: str) -> None:
    leaf(tmp_path, "test", {"a": samples(0, 2)})
    (tmp_path / "data" / "train").mkdir()
    (tmp_path / "data" / "train" / "a.json").write_text(content)
    with pytest.raises(ConfigError, match=message):
        load(f"leaf:{tmp_path}")
    with pytest.raises(ConfigError, match="one with the folders train and test"):
        load(f"leaf:{tmp_path / 'data' / 'train'}")
