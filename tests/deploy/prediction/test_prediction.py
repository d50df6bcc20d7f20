"""Devices fitted to a journal, and the deployment that they predict."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.deploy.deployed import CLIENTS, SAMPLES, TASK, Bed, made
from tests.deploy.prediction.delays import slow_link

from deploy.pairs import run as run_bounded
from fedpace.cli import main
from fedpace.compute.protocol import Request
from fedpace.deploy import genesis, join_async, serve_async
from fedpace.deploy.journal.files import DiskFiles
from fedpace.deploy.messages import Message, MessageKind
from fedpace.deploy.plan import RunPlan
from fedpace.deploy.prediction import measured as files
from fedpace.deploy.prediction.fitting import fit, warm, warm_up_s
from fedpace.deploy.prediction.measured import MeasuredDevice, MeasuredPopulation, measured
from fedpace.deploy.prediction.predicting import compared, predict
from fedpace.deploy.prediction.sessions import Observed, ObservedSession, observe
from fedpace.deploy.projects.program import Program
from fedpace.deploy.projects.serving import StudyFolder
from fedpace.deploy.terms import Terms
from fedpace.deploy.websocket.client import WebsocketClient
from fedpace.deploy.websocket.server import WebsocketServer
from fedpace.errors import ConfigError
from fedpace.local import Stopped
from fedpace.sim.observer import StepRecord
from fedpace.vector import Vector

CLIENT = """\
from fedpace.tasks import quadratics
import numpy as np

def task():
    return quadratics(np.arange(18.0).reshape(6, 3) / 16, weights=[1, 2, 3, 4, 5, 6])
"""
RUN = """\
[run]
algorithm = "fedbuff(buffer=2, concurrency=4, client_lr=0.1, server_lr=0.1, steps=4)"
clients = 6
rounds = {rounds}
seed = 5
"""


def session(
    took_s: float, train_s: float | None, bytes_: int = 2000, steps: int = 4, sent_s: float = 0.0
) -> ObservedSession:
    return ObservedSession(sent_s, sent_s, sent_s + took_s, train_s, steps, bytes_ // 2, bytes_ - bytes_ // 2)


# ------------------------------------------------------------ one device


@pytest.mark.parametrize("noise", ["half_normal", "exponential"])
def test_a_fitted_device_has_the_observed_mean_and_deviation(noise: str) -> None:
    """E = steps step_s + 2 latency + scale E|e|, and the deviation scale sd|e|, for the noise e of the simulation."""
    times = fit([session(3.0, 2.5), session(3.4, 2.9), session(3.8, 3.3)], waits=False)
    parts = times.parts(noise)
    rng = np.random.default_rng(0)
    drawn = abs(rng.standard_normal(200_000)) if noise == "half_normal" else rng.standard_exponential(200_000)
    seconds = 4 * parts.step_s + 2 * parts.latency_s + parts.noise_s * drawn
    assert seconds.mean() == pytest.approx(3.4, rel=0.005)
    assert seconds.std() == pytest.approx(np.std([2.5, 2.9, 3.3]), rel=0.02)
    assert parts.latency_s == pytest.approx(0.25) and times.s_per_byte == 0 and not times.varies


@pytest.mark.parametrize("noise", ["half_normal", "exponential"])
def test_no_part_is_negative_and_together_they_are_the_mean(noise: str) -> None:
    rng = np.random.default_rng(1)
    mean = float(np.sqrt(2 / np.pi)) if noise == "half_normal" else 1.0
    for _ in range(300):
        trained, link = rng.exponential(size=(2, rng.integers(1, 6))) * 10.0 ** rng.integers(
            -6, 3, size=(2, 1)
        )
        observed = [session(float(one + other), float(one)) for one, other in zip(trained, link, strict=True)]
        parts = fit(observed, waits=False).parts(noise)
        assert min(parts.step_s, parts.noise_s, parts.latency_s) >= 0 < parts.step_s + parts.noise_s
        together = 4 * parts.step_s + 2 * parts.latency_s + mean * parts.noise_s
        assert together == pytest.approx(float(np.mean(trained + link)), rel=1e-6)


def test_noise_of_the_link_leaves_the_speed_as_it_is() -> None:
    parts = fit([session(1.2, 1.0), session(1.4, 1.0)], waits=False).parts("exponential")
    assert parts.step_s == pytest.approx(0.25)
    assert (parts.noise_s, parts.latency_s) == (pytest.approx(0.1), pytest.approx(0.1))


def test_sessions_that_vary_a_lot_are_exponential_and_keep_their_mean() -> None:
    times = fit([session(0.1, 0.1), session(0.1, 0.1), session(0.1, 0.1), session(7.7, 7.7)], waits=False)
    parts = times.parts("exponential")
    assert times.varies and parts.step_s == pytest.approx(0) and parts.noise_s == pytest.approx(2.0)


def test_latency_and_rate_are_told_apart_where_sizes_differ() -> None:
    """transfer = 0.1 + bytes / 1e6, exactly."""
    sizes = (1000, 200_000, 400_000)
    times = fit([session(1.1 + size / 1e6, 1.0, size) for size in sizes], waits=False)
    assert times.s_per_byte == pytest.approx(1e-6)
    assert times.link_s - times.size * times.s_per_byte == pytest.approx(0.1)
    large = fit([session(1.5, 1.0, 10**6)] * 2, waits=False)  # of one size, and large: all of it is rate
    assert large.s_per_byte == pytest.approx(0.5e-6) and large.parts("half_normal").latency_s == 0.0


def test_a_client_that_does_not_say_how_long_it_trained_has_no_link() -> None:
    times = fit([session(2.0, None), session(2.0, None)], waits=False)
    assert (times.train_s, times.link_s, times.s_per_byte) == (2.0, 0.0, 0.0)


def test_a_client_that_waits_for_the_server_is_measured_by_its_own_clock() -> None:
    asked = [replace(session(9.0, 2.0), asked_s=8.9), replace(session(5.0, 2.0), asked_s=4.0)]
    times = fit(asked, waits=True)
    assert times.train_s == 2.0 and times.link_s == pytest.approx(0.1) and times.link_deviation_s == 0


def test_first_sessions_take_longer() -> None:
    slow = [[session(5.0, 4.9), session(2.0, 1.9), session(2.0, 1.9)], [session(4.0, 3.9), session(1.5, 1.4)]]
    assert warm_up_s(slow) == pytest.approx(2.75)
    assert warm(slow[0], 2.75) == slow[0][1:]
    [only] = warm([session(4.0, 3.9)], 2.75)
    assert only.arrived_s == pytest.approx(1.25) and only.train_s == pytest.approx(1.15)
    assert warm_up_s([[session(1.0, 0.9)]]) == 0.0


# ------------------------------------------------------------ the file

DEVICE = MeasuredDevice(0, 3, 4.0, 1.0, 0.25, 0.1, 0.05, 1e6, ((0.0, None),))
STEP = StepRecord(1, 2.0, (0, 1), (0, 1), 10, 20, {"loss": 0.5})
MEASURED = MeasuredPopulation("night", "fedavg()", 10.0, 0.5, "half_normal", 0.25, (DEVICE,), (STEP,))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(MEASURED.to_json(), encoding="utf-8")
    assert files.read(tmp_path / "m.json") == MEASURED


def test_devices_become_a_population() -> None:
    second = replace(DEVICE, client=1, step_s=0.5, bytes_per_s=None)
    population = replace(MEASURED, devices=(DEVICE, second)).population(3)
    assert population.step_s == (0.25, 0.5, 0.25) and population.up_s == (0.05,) * 3
    assert population.down_s_per_byte == (1e-6, 0.0, 1e-6) and population.windows is None
    assert (population.drop, population.mode, population.noise) == (0.25, "serial", "half_normal")


def test_availability_is_repeated() -> None:
    away = replace(DEVICE, client=1, available=((2.0, 4.0), (6.0, None)))
    both = replace(MEASURED, devices=(DEVICE, away))
    windows = both.population(2).windows
    assert windows is not None
    own = [window for window in windows if window[0] == 1][:4]
    assert own == [(1, 2.0, 4.0), (1, 6.0, 10.0), (1, 12.0, 14.0), (1, 16.0, 20.0)]
    assert both.share_available(away) == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"schema": 2}, "schema must be 1; got 2"),
        ({"seconds": 0}, "seconds must be in"),
        ({"seconds": float("nan")}, "seconds must be of its kind"),
        ({"noise": "loud"}, "noise must be half_normal or exponential"),
        ({"drop": 1}, "drop must be in"),
        ({"warm_up_s": -1}, "warm_up_s must be >= 0"),
        ({"devices": []}, "devices must be at least one"),
        ({"devices": [{}]}, r"devices\[0\]: client must be of its kind"),
        ({"devices": [{"step_s": -1}]}, r"devices\[0\].step_s must be in"),
        ({"devices": [{"bytes_per_s": 0}]}, r"devices\[0\].bytes_per_s must be a rate"),
        ({"devices": [{"step_s": 0, "noise_s": 0}]}, r"devices\[0\].step_s must be > 0"),
        ({"devices": [{"available": [[3, 2]]}]}, r"available must be \[from, to\], in order"),
        ({"devices": [{"available": [[0, None], [1, 2]]}]}, r"available must be \[from, to\], in order"),
        ({"devices": [{"available": [[0]]}]}, r"available must be \[from, to\], in order"),
        ({"history": [{}]}, r"history\[0\]: version must be of its kind"),
    ],
)
def test_a_file_that_was_changed_is_refused(changed: dict[str, Any], words: str, tmp_path: Path) -> None:
    plain = json.loads(MEASURED.to_json())
    if changed.get("devices") and changed["devices"][0]:
        changed = {"devices": [plain["devices"][0] | changed["devices"][0]]}
    (tmp_path / "m.json").write_text(json.dumps(plain | changed), encoding="utf-8")
    with pytest.raises(ConfigError, match=words) as raised:
        files.read(tmp_path / "m.json")
    assert "\n" not in str(raised.value)


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    for text in ("{", "[]", "[" * 100_000):
        (tmp_path / "m.json").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError):
            files.read(tmp_path / "m.json")
    with pytest.raises(ConfigError, match="readable file"):
        files.read(tmp_path / "nowhere.json")


def test_two_histories_are_compared_over_the_steps_that_both_have() -> None:
    later = replace(STEP, version=2, virtual_seconds=4.0, staleness=(2, 3), metrics={"loss": 0.25})
    rows = {row.name: row for row in compared([STEP, later], [replace(STEP, virtual_seconds=1.0)])}
    assert (rows["server steps"].predicted, rows["server steps"].real) == (2, 1)
    assert rows["seconds, 1 steps"].difference == 1.0
    assert rows["mean staleness, 1 steps"].predicted == 0.5
    assert rows["bytes up, 1 steps"].difference == 0.0 and rows["loss, steps 1 to 1"].difference == 0.0


# ------------------------------------------------------------ from a journal


def test_a_journal_is_measured_and_its_run_predicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client that leaves is available no longer; the page shows both runs."""
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "home"))
    study = tmp_path / "study"
    (study / "runs").mkdir(parents=True)
    (study / "client.py").write_text(CLIENT, encoding="utf-8")
    (study / "run.toml").write_text(RUN.format(rounds=40), encoding="utf-8")

    contributed: set[int] = set()

    async def script(bed: Bed) -> None:
        while 5 not in contributed:
            await bed.reached(bed.version + 1)
        bed.leaving[5]()

    bed = Bed(StudyFolder.read(study).algorithm, tmp_path, rounds=40, evaluate_every=1)
    bed.options["told"] = [lambda step, _: contributed.update(step.clients), bed._stepped]
    bed.place = study / "runs" / "night"
    bed.run(script)
    output, page, table = (str(tmp_path / name) for name in ("m.json", "p.html", "p.json"))
    assert main(["deploy", "measure", str(study), "-o", output]) == 0
    found = files.read(output)
    assert [device.client for device in found.devices] == [*range(6)]
    assert found.devices[5].available[0][1] is not None and found.devices[0].available == ((0.0, None),)
    assert all(device.sessions >= 1 and device.train_s > 0 for device in found.devices)
    sessions = [each for client in observe(bed.place).clients.values() for each in client.sessions]
    assert all(each.train_s is not None and each.steps == 4 for each in sessions)
    words = ["deploy", "predict", str(study / "run.toml"), "--population", output]
    assert main([*words, "--page", page, "--json", table]) == 0
    said = json.loads(Path(table).read_text("utf-8"))
    assert said["real"] == "night" and said["compared"]["server steps"] == {"predicted": 40, "real": 40}
    assert len(said["history"]) == 40
    assert {"mean staleness, 40 steps", "bytes up, 40 steps", "loss, steps 33 to 40"} <= set(said["compared"])
    (study / "run.toml").write_text(RUN.format(rounds=3).replace("buffer=2", "buffer=3"), encoding="utf-8")
    assert main([*words, "--json", table]) == 0  # another plan: nothing to compare with
    said = json.loads(Path(table).read_text("utf-8"))
    assert said["real"] is None and said["compared"]["server steps"] == {"predicted": 3, "real": None}
    assert "use --real to compare with a run of this one" in capsys.readouterr().out
    assert main([*words, "--real", str(bed.place)]) == 0
    text = Path(page).read_text("utf-8")
    assert "real: night" in text and "predicted and real" in text and "<td>server steps</td>" in text
    assert "difference" in capsys.readouterr().out


def test_a_run_without_updates_and_what_is_no_run_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert main(["deploy", "measure", "nowhere"]) == 2
    assert "RUN must be a deployed run" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="RUN must be a deployed run with its journal"):
        observe(tmp_path)
    terms = Terms(plan=RunPlan.of(made("fedavg")), clients=CLIENTS, rounds=3, samples=tuple(SAMPLES))
    genesis.new_run(TASK.name, terms, TASK.initial(0), TASK.layout).write(DiskFiles(tmp_path))
    with pytest.raises(ConfigError, match="no client finished a session"):
        measured(observe(tmp_path), "night")


@pytest.mark.parametrize(
    ("said", "known"), [(-1.0, None), (1e300, None), (9.0, None), (1.5, 1.5), (None, None)]
)
def test_a_client_cannot_have_trained_longer_than_its_round_trip(
    said: float | None, known: float | None, tmp_path: Path
) -> None:
    terms = Terms(plan=RunPlan.of(made("fedavg")), clients=CLIENTS, rounds=3, samples=tuple(SAMPLES))
    begun = genesis.new_run(TASK.name, terms, TASK.initial(0), TASK.layout)
    watched = Observed(begun, begun.coordinator())
    watched._of(2).models[7] = (10.0, 100)
    header = {"origin": 7, "steps": 4, **({} if said is None else {"train_s": said})}
    watched._arrived(2, Message(MessageKind.UPDATE, header, {"update": b"abc"}), 12.0)
    [found] = watched.clients[2].sessions
    assert (found.train_s, found.sent_s, found.arrived_s) == (known, 10.0, 12.0)
    assert (found.bytes_down, found.bytes_up) == (100, 3)


# ------------------------------------------------------------ how good it is


class Slowed:
    """Quadratics whose local steps take so long."""

    name, layout, clients = TASK.name, TASK.layout, TASK.clients
    initial, samples, solve, evaluate = TASK.initial, TASK.samples, TASK.solve, TASK.evaluate

    def __init__(self, step_s: float) -> None:
        self.step_s = step_s

    def train_until(self, request: Request, stopped: Stopped) -> tuple[Vector, int]:
        def after_a_moment() -> bool:
            time.sleep(self.step_s)
            return stopped()

        return TASK.train_until(request, after_a_moment)


async def real_run(algorithm: Any, place: Path, rounds: int) -> None:
    """Six clients over sockets: the i-th is (i + 1) times as slow, and has a link of its own."""
    server = WebsocketServer(CLIENTS, identities=None)
    await server.start("127.0.0.1", 0)
    async with AsyncExitStack() as links:
        serving = asyncio.ensure_future(
            serve_async(
                algorithm, TASK, server, place, clients=CLIENTS, rounds=rounds, seed=5, wait_for=CLIENTS
            )
        )
        joined = []
        for number in range(CLIENTS):
            link = await links.enter_async_context(
                slow_link(server.address[1], 0.01 * (CLIENTS - number), 50_000.0)
            )
            end = WebsocketClient(
                number, "127.0.0.1", link.port, context=None, rng=np.random.default_rng(number)
            )
            end.start()
            slowed: Any = Slowed(0.01 * (number + 1))
            joined.append(asyncio.ensure_future(join_async(slowed, end, data=number)))
        await serving
        await asyncio.gather(*joined)


@pytest.mark.long
@pytest.mark.parametrize("name", ["fedbuff", "fedavg", "fedasync", "ca2fl", "scaffold"])
def test_a_run_with_injected_delays_is_predicted_within_15_percent(name: str, tmp_path: Path) -> None:
    """The devices come from the run itself; the sixth-fold range of speeds and the links are found again."""
    study = tmp_path / "study"
    (study / "runs").mkdir(parents=True)
    (study / "client.py").write_text(CLIENT, encoding="utf-8")
    (study / "run.toml").write_text(RUN.format(rounds=40), encoding="utf-8")
    algorithm = made(name)
    run_bounded(real_run(algorithm, study / "runs" / "night", 40))
    found = measured(observe(study / "runs" / "night"), "night")
    for device in found.devices:
        assert device.train_s == pytest.approx(0.05 * (device.client + 1), rel=0.3)
    read = replace(StudyFolder.read(study), algorithm=algorithm)
    for row in predict(read, found, Program(study / "client.py")).rows():
        if not row.name.startswith("largest staleness"):
            assert row.difference is not None and abs(row.difference) <= 0.15, (row, found.devices)


@pytest.mark.long
def test_another_algorithm_is_predicted_from_the_devices_of_the_first(tmp_path: Path) -> None:
    """Measured under fedbuff; predicted, and then run: fedavg with other cohorts and twice the local steps."""
    study = tmp_path / "study"
    (study / "runs").mkdir(parents=True)
    (study / "client.py").write_text(CLIENT, encoding="utf-8")
    (study / "run.toml").write_text(RUN.format(rounds=40), encoding="utf-8")
    other = made("fedavg", clients_per_round=3, steps=8)
    run_bounded(real_run(made("fedbuff"), study / "runs" / "first", 40))
    run_bounded(real_run(other, study / "runs" / "second", 40))
    first, second = (measured(observe(study / "runs" / name), name) for name in ("first", "second"))
    read = replace(StudyFolder.read(study), algorithm=other)
    for row in predict(read, first, Program(study / "client.py"), second).rows():
        assert row.difference is not None and abs(row.difference) <= 0.15, row


DIGITS = """\
import os
import time

from sklearn.datasets import load_digits
from torch import float32, nn, tensor

SLOW_S = float(os.environ.get("SLOW_S", "0.02"))  # per local step of client 0; of client i, i + 1 times that
plain, slow_s = nn.CrossEntropyLoss(), 0.0

def loss(output, target):
    if output.requires_grad:
        time.sleep(slow_s)
    return plain(output, target)

def model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

def data(client):
    global slow_s
    slow_s = SLOW_S * (client + 1)
    x, y = (tensor(part[client::8]) for part in load_digits(return_X_y=True))
    x = x.to(float32) / 16
    return (x[40:], y[40:]), (x[:40], y[:40])
"""


@pytest.mark.long
def test_the_manuals_study_is_predicted_within_15_percent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real processes, torch, and clients that evaluate: docs/deploy.md shows the same commands."""
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert main(["deploy", "new", "study"]) == 0
    (tmp_path / "study" / "client.py").write_text(DIGITS, encoding="utf-8")
    assert main(["deploy", "try", "study", "-n", "4", "--quiet"]) == 0
    assert main(["deploy", "measure", "study-try"]) == 0
    monkeypatch.setenv("SLOW_S", "0")
    words = ["deploy", "predict", "study/run.toml", "--population", "measured.json", "--json", "p.json"]
    assert main(words) == 0
    rows = json.loads((tmp_path / "p.json").read_text("utf-8"))["compared"]
    for name in ("seconds", "steps per minute", "mean staleness", "bytes up", "bytes down"):
        row = rows[f"{name}, 30 steps"]
        assert row["predicted"] == pytest.approx(row["real"], rel=0.15), (name, row)
    assert rows["accuracy, steps 25 to 30"]["predicted"] == pytest.approx(
        rows["accuracy, steps 25 to 30"]["real"], rel=0.15
    )
