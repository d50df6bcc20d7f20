"""Devices: what crosses between them and main memory, what is refused, and what precision changes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedpace
from fedpace import algorithms, tasks
from fedpace.cli import main
from fedpace.compute import auto, cluster, engine
from fedpace.compute.arena import Arena, Inherited, Library
from fedpace.compute.device import Device, device
from fedpace.compute.pins import Pin
from fedpace.compute.protocol import Request
from fedpace.compute.worker import Order, _request
from fedpace.errors import CheckpointError, ConfigError, OutOfMemory
from fedpace.local import SGD
from fedpace.tasks import placed
from fedpace.tasks.examples import Tensors
from fedpace.tasks.images_last import as_given

STEPS = 3  # as in on_fake_device.py
ORDER, MODEL, DATA = 1, 1, 2  # transfers: a session's order, a model version, inputs and targets of a client
SOURCE = Path(fedpace.__file__).parent


@pytest.fixture(scope="module")
def counted() -> dict[str, Any]:
    script = Path(__file__).with_name("on_fake_device.py")
    said = subprocess.run([sys.executable, "-W", "ignore", script], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def session(*, model: bool, data: bool) -> dict[str, int]:
    return {"up": ORDER + MODEL * model + DATA * data, "down": 1}


@pytest.mark.parametrize("kind", ["dense", "images", "attention", "momentum", "clip"])
def test_a_model_crosses_once_per_version_and_data_once_per_client(
    kind: str, counted: dict[str, Any]
) -> None:
    """Two clients from one model, the first again, and again from a new model; no number is waited for."""
    assert counted[kind] == [
        session(model=True, data=True),
        session(model=False, data=True),
        session(model=False, data=False),
        session(model=True, data=False),
    ]


def test_data_that_does_not_fit_crosses_batch_by_batch(counted: dict[str, Any]) -> None:
    ups = [each["up"] for each in counted["no room"]]
    assert ups == [MODEL + DATA * STEPS, DATA * STEPS, DATA * STEPS, MODEL + DATA * STEPS]


def test_the_data_used_last_stays(counted: dict[str, Any]) -> None:
    """Room for one client: the first is there no more when it comes again, and is when it comes at once."""
    ups = [each["up"] for each in counted["room for one"]]
    assert ups == [ORDER + MODEL + DATA, ORDER + DATA, ORDER + DATA, ORDER + MODEL]


def test_each_of_several_versions_in_flight_crosses_once(counted: dict[str, Any]) -> None:
    """Sessions begin from three versions in turn; the first is there already, the others come at their first turn."""
    new, known = session(model=True, data=False), session(model=False, data=False)
    assert counted["three versions"] == [new, new, known, known, known, known]


def test_versions_beyond_the_room_for_them_cross_again(counted: dict[str, Any]) -> None:
    assert [each["up"] for each in counted["three versions, no room"]] == [MODEL + DATA * STEPS] * 6


def test_a_version_that_nobody_has_any_more_leaves_the_device(counted: dict[str, Any]) -> None:
    assert counted["forgotten"] == [3, 1]


def test_an_array_that_may_be_written_to_is_no_version(counted: dict[str, Any]) -> None:
    assert counted["written to"] == [{"up": 1}, {"up": 1}]


def test_lanes_come_back_in_one_piece(counted: dict[str, Any]) -> None:
    """Three clients, of which one was tried before; and which lanes are in use, once."""
    mask = 1
    first = {"up": 3 * ORDER + MODEL + 2 * DATA + mask, "down": 1}
    assert counted["lanes"] == [first, {"up": 3 * ORDER, "down": 1}]


def test_a_loss_of_main_memory_is_refused(counted: dict[str, Any]) -> None:
    """It is one number, which torch takes from anywhere, and would wait for at every step."""
    said = "ConfigError: the loss must be on pretended:0, as the parameters are; got cpu"
    assert counted["loss elsewhere"] == [said, said]


def test_an_evaluation_waits_once_for_its_numbers(counted: dict[str, Any]) -> None:
    """The model and the test data cross, and the order of the samples; with metrics of the whole also the outputs."""
    first, again = {"up": ORDER + MODEL + DATA, "down": 1}, {"up": ORDER, "down": 1}
    assert counted["evaluation"] == [first, again]
    assert counted["whole metric"] == [{**first, "host": 2}, {**again, "host": 2}]


def test_half_precision_crosses_as_the_full_one_does(counted: dict[str, Any]) -> None:
    assert counted["bf16"] == counted["dense"]


def test_a_tensor_of_main_memory_among_those_of_the_device_is_refused(counted: dict[str, Any]) -> None:
    assert "found at least two devices" in counted["stray"]
    assert counted["index"] == "AssertionError: an index on cpu into a tensor on pretended:0"


CROSSING = re.compile(
    r"\.(numpy|item|cpu|pin_memory|record_stream|synchronize)\(|\.cuda\b|from_numpy|\bStream\(|"
    r"\.to\((?!torch\.\w+\))|(?<!\.)\bfloat\((?!self\.sizes|np\.|rate\))"
)
TRAINING = (
    "torch_task autograd flat placed descend scaling optimise kept_state images_last fast/lanes fast/order"
)
EVALUATION = "objective own_loss evaluation statistics sums named cost"


@pytest.mark.parametrize("file", [*TRAINING.split(), *EVALUATION.split()])
def test_nothing_crosses_but_through_the_device(file: str) -> None:
    """On the way of a session and of an evaluation. Compiled and replayed steps are only taken in main memory."""
    text = (SOURCE / "tasks" / f"{file}.py").read_text()
    assert [found.group() for found in CROSSING.finditer(text)] == []


# ------------------------------------------------------------------------ choosing one


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("cuda", "device cuda is not available: torch"),
        ("cuda:1", "device cuda:1 is not available: torch"),
        ("mps", "device mps is not available: torch"),
        ("gpu", "did you mean cuda? device must be one of auto, cpu, cuda, cuda:1, mps; got 'gpu'"),
        ("cuda:x", "did you mean cuda:1? device must be one of"),
    ],
)
def test_a_device_that_is_not_there(name: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError) as error:
        tasks.load("digits", clients=2, device=name)
    assert str(error.value).startswith(line)
    assert device("auto").type == "cpu"


def test_the_command_line_says_so_in_one_line(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["run", "fedavg", "--device", "cuda"]) == 2
    assert capsys.readouterr().err.strip().splitlines() == [
        f"fedpace run: device cuda is not available: torch {torch.__version__} sees no CUDA device"
    ]


def test_the_last_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert (device("auto").name, device("cuda:1").name) == ("cuda", "cuda:1")
    with pytest.raises(ConfigError, match="device cuda:2 is not available: the last is cuda:1"):
        device("cuda:2")


def test_an_unknown_precision() -> None:
    with pytest.raises(ConfigError, match="precision must be one of bf16, float32, fp16; got 'fp8'"):
        tasks.load("digits", clients=2, precision="fp8")


def test_a_repr_names_the_type_of_a_device_and_says_nothing_of_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device("cuda:1", "bf16").text == ", device='cuda', precision='bf16'"
    assert device("cuda").label == " on cuda"
    assert device("cpu").text == device("cpu").label == ""


def test_small_models_on_a_gpu_are_vectorised(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(is_host=False)
    small = SimpleNamespace(name="t", clients=4, layout=SimpleNamespace(size=10), device=gpu, lanes=16)
    large = SimpleNamespace(**{**vars(small), "layout": SimpleNamespace(size=10**7)}, samples=lambda c: 5.0)
    local = SGD(0.1, steps=1)
    assert auto.choose(small, 2, local) == Pin("vectorised", 1)  # type: ignore[arg-type]
    assert auto.choose(large, 1, local) == Pin("inline", 1)  # type: ignore[arg-type]


def test_actors_share_what_gpus_there_are() -> None:
    def share(gpus: float) -> float:
        return cluster.gpu_share(SimpleNamespace(cluster_resources=lambda: {"GPU": gpus}), 4)

    assert [share(gpus) for gpus in (1.0, 2.0, 3.0, 4.0, 8.0)] == [1 / 4, 1 / 2, 1 / 2, 1, 1]
    with pytest.raises(ConfigError, match="no node of it has a GPU"):
        share(0)


# ------------------------------------------------------------------------ precision


def own(precision: str = "float32") -> tasks.OwnTask:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 16), nn.Softplus(), nn.Linear(16, 3))
    x = torch.randn(40, 6)
    data = [(x[:20], torch.arange(20) % 3), (x[20:], torch.arange(20) % 3)]
    return tasks.from_torch(network, nn.CrossEntropyLoss(), data, data[0], precision=precision)


def update(task: tasks.TorchTask, scale: float = 1.0, compute: str = "inline") -> np.ndarray:
    local = SGD(0.1 * scale, steps=4, batch_size=5)
    start = task.initial(0)
    return engine(compute, task).result(Request(0, 0, start, 0, local, 4, seed=0, data=0))


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_is_near_and_the_vector_stays_float32(precision: str) -> None:
    """Eight bits of a number are left in bfloat16: 1 part in 256, over a few operations."""
    exact, rough = update(own()), update(own(precision))
    assert rough.dtype == np.float32
    assert 0 < np.linalg.norm(rough - exact) < 0.05 * np.linalg.norm(exact)
    assert own(precision).evaluate(exact)["loss"] == pytest.approx(own().evaluate(exact)["loss"], rel=0.02)


def test_a_task_says_its_precision() -> None:
    task = own("bf16")
    assert repr(task).endswith(", precision='bf16')")
    assert task.solving == "autograd steps, bf16"


@pytest.mark.parametrize("compute", ["inline", "vectorised"])
def test_small_gradients_survive_half_precision(compute: str) -> None:
    """A loss of 1e-7 has gradients that fp16 cannot hold; scaled up they are what they were."""
    small = nn.Linear(4, 3)
    data = (torch.randn(8, 4), torch.arange(8) % 3)

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return 1e-7 * nn.functional.cross_entropy(output, target)

    exact, rough = (
        update(tasks.from_torch(small, loss, [data], data, precision=precision), 1e7, compute)
        for precision in ("float32", "fp16")
    )
    assert np.linalg.norm(rough - exact) < 0.02 * np.linalg.norm(exact)


# ------------------------------------------------------------------------ batches, models, memory


def test_gathered_batches_are_those_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Tensors(torch.arange(40.0).view(20, 2), torch.arange(20))
    order, ends = np.random.default_rng(0).permutation(20), np.array([6, 12, 18, 20])
    for chunk in (1, 2 * 6 * 16, 1 << 20):
        monkeypatch.setattr(placed, "CHUNK_BYTES", chunk)
        found = list(placed.session_batches(data, order, ends, as_given))
        expected = [data.take(part) for part in np.split(order, ends[:-1])]
        assert len(found) == len(expected)
        for (x, y), (u, v) in zip(found, expected, strict=True):
            assert torch.equal(x, u) and torch.equal(y, v)


def test_a_worker_sees_one_array_per_model_version() -> None:
    library = Library(Arena(4, 64, Inherited))
    views: dict[int, Any] = {}
    asked = Request(0, 0, np.zeros(3), 0, SGD(0.1, steps=1), 1, seed=0, data=0)

    def seen(v: np.ndarray) -> Any:
        slot = library.lend(v)
        order = Order(0, asked.without_vectors(), "<f8", slot, library.writing(slot), 0)
        library.take_back(slot)
        return _request(library.arena, order, 3, views).start

    first, second = np.arange(3.0), np.ones(3)
    a, b, c = seen(first), seen(first), seen(second)
    assert a is b and c is not a
    np.testing.assert_array_equal(c, second)


def test_memory_that_runs_out_says_what_to_lower() -> None:
    with pytest.raises(OutOfMemory) as error, Device().session("client 3 session 0"):
        torch.empty(1 << 60)
    assert str(error.value) == (
        "cpu is out of memory in client 3 session 0: lower batch_size, --workers or the model's size, "
        "or ask for precision bf16"
    )
    with pytest.raises(RuntimeError, match="other"), Device().session("x"):
        raise RuntimeError("something other")


def full(*_: Any) -> None:
    torch.empty(1 << 60)


@pytest.mark.parametrize("evaluate", ["evaluate", "evaluate_clients", "training_loss"])
def test_an_evaluation_without_memory_advises_what_it_depends_on(
    evaluate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """batch_size is local training's alone."""
    for task in (own(), tasks.load("digits", clients=2)):
        monkeypatch.setattr(task, "_show", full)
        with pytest.raises(OutOfMemory) as error:
            getattr(task, evaluate)(task.initial(0))
        assert str(error.value) == (
            "cpu is out of memory in evaluation, which takes up to 500 samples at a time: "
            "lower --workers or the model's size, or ask for precision bf16"
        )


# ------------------------------------------------------------------------ checkpoints


def run(folder: Path, precision: str = "float32", **options: Any) -> fedpace.Run:
    algorithm = algorithms.fedavg(clients_per_round=2, steps=1, batch_size=5)
    return fedpace.simulate(algorithm, own(precision), rounds=1, checkpoint=folder, **options)


def test_a_checkpoint_belongs_to_its_precision_and_to_the_engine_where_that_changes_bits(
    tmp_path: Path,
) -> None:
    run(tmp_path / "a")
    with pytest.raises(CheckpointError, match="whose task is from_torch.*this one has from_torch.*bf16"):
        run(tmp_path / "a", "bf16")
    with pytest.raises(CheckpointError, match="whose compute is not given; this one has 'vectorised'"):
        run(tmp_path / "a", compute="vectorised")
    run(tmp_path / "b", compute="vectorised")
    with pytest.raises(CheckpointError, match="whose compute is 'vectorised'; this one has not given"):
        run(tmp_path / "b")
    run(tmp_path / "a", compute="inline")
