"""Devices fitted to a journal, and the deployment that they predict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.deploy.deployed import CLIENTS, SAMPLES, TASK, Bed, made

from fedpace.cli import main
from fedpace.deploy import genesis
from fedpace.deploy.journal.files import DiskFiles
from fedpace.deploy.messages import Message, MessageKind
from fedpace.deploy.plan import RunPlan
from fedpace.deploy.prediction import measured as files
from fedpace.deploy.prediction.comparing import compared, probability_within
from fedpace.deploy.prediction.measured import MeasuredDevice, MeasuredPopulation, measured
from fedpace.deploy.prediction.sessions import Observed, observe
from fedpace.deploy.projects.serving import StudyFolder
from fedpace.deploy.terms import Terms
from fedpace.errors import ConfigError
from fedpace.sim.observer import StepRecord

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


# ------------------------------------------------------------ the file

DEVICE = MeasuredDevice(0, 3, 4.0, 1.0, 0.25, 0.05, 1e6, (0.5, 1.5), (0.0, 0.25), ((0.0, None),))
STEP = StepRecord(1, 2.0, (0, 1), (0, 1), 10, 20, {"loss": 0.5})
MEASURED = MeasuredPopulation("night", "fedavg()", 10.0, 0.5, 0.25, (DEVICE,), (STEP,))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(MEASURED.to_json(), encoding="utf-8")
    assert files.read(tmp_path / "m.json") == MEASURED


def test_devices_become_a_population() -> None:
    second = replace(DEVICE, client=1, step_s=0.5, bytes_per_s=None)
    population = replace(MEASURED, devices=(DEVICE, second)).population(3)
    assert population.step_s == (0.25, 0.5, 0.25) and population.up_s == (0.05,) * 3
    assert population.down_s_per_byte == (1e-6, 0.0, 1e-6) and population.windows is None
    assert (population.drop, population.mode) == (0.25, "serial")


def test_simulated_sessions_are_observed_ones_and_another_order_draws_others() -> None:
    """Either 4 * 0.25 * 0.5 + 0 or 4 * 0.25 * 1.5 + 0.25 seconds: slowdown and extra of one session, never mixed."""
    drawn = {
        order: [
            MEASURED.population(3, order).bind(3, seed=5).compute_s(client, session, 4)
            for client in range(3)
            for session in range(20)
        ]
        for order in range(8)
    }
    assert {seconds for each in drawn.values() for seconds in each} == {0.5, 1.75}
    assert len({tuple(each) for each in drawn.values()}) == 8
    again = MEASURED.population(3, 7).bind(3, seed=5)
    assert [again.compute_s(2, session, 4) for session in range(20)] == drawn[7][40:]
    kept = [MEASURED.population(3, order).noise.slowdown[0] for order in range(40)]  # type: ignore[union-attr]
    assert set(kept) == {(0.5, 0.5), (0.5, 1.5), (1.5, 0.5), (1.5, 1.5)}  # few sessions tell little


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
        (
            {"schema": 1},
            "schema must be 2, of a file that this version's `fedpace deploy measure` wrote; got 1",
        ),
        ({"seconds": 0}, "seconds must be in"),
        ({"seconds": float("nan")}, "seconds must be of its kind"),
        ({"drop": 1}, "drop must be in"),
        ({"warm_up_s": -1}, "warm_up_s must be >= 0"),
        ({"devices": []}, "devices must be at least one"),
        ({"devices": [{}]}, r"devices\[0\]: client must be of its kind"),
        ({"devices": [{"step_s": -1}]}, r"devices\[0\].step_s must be in"),
        ({"devices": [{"bytes_per_s": 0}]}, r"devices\[0\].bytes_per_s must be a rate"),
        ({"devices": [{"step_s": 0}]}, r"devices\[0\].step_s must be > 0"),
        ({"devices": [{"slowdown": []}]}, r"devices\[0\].slowdown must be of one session or more"),
        ({"devices": [{"slowdown": [1, -1]}]}, r"devices\[0\].slowdown must be of one session or more"),
        ({"devices": [{"extra_s": [1]}]}, r"devices\[0\].extra_s must be seconds of the same sessions"),
        (
            {"devices": [{"extra_s": [1, -1e13]}]},
            r"devices\[0\].extra_s must be seconds of the same sessions",
        ),
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


def test_histories_are_compared_over_the_steps_that_all_have() -> None:
    later = replace(STEP, version=2, virtual_seconds=4.0, staleness=(2, 3), metrics={"loss": 0.25})
    other = replace(STEP, virtual_seconds=3.0, staleness=(1, 1), metrics={"loss": 1.5})
    rows = {row.name: row for row in compared([[STEP, later], [other]], [replace(STEP, virtual_seconds=2.5)])}
    assert rows["server steps"].cells == ["server steps", "1.5", "1 to 2", "1", "+50.0 %"]
    assert rows["seconds, 1 steps"].cells[1:] == ["2.5", "2 to 3", "2.5", "+0.0 %"]
    assert rows["mean staleness, 1 steps"].cells[1:4] == ["0.75", "0.5 to 1", "0.5"]
    assert rows["bytes up, 1 steps"].cells[1:] == ["10", "", "10", "+0.0 %"]
    assert rows["loss, steps 1 to 1"].values == (0.5, 1.5) and rows["loss, steps 1 to 1"].difference == 1.0


def test_metrics_are_compared_over_the_real_runs_last_steps_whoever_was_measured_when() -> None:
    def history(*losses: float | None) -> list[StepRecord]:
        return [
            replace(STEP, version=at, metrics={} if loss is None else {"loss": loss})
            for at, loss in enumerate(losses, 1)
        ]

    real = history(9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 1.0, None, 3.0)
    sparse, dense = history(*[None] * 9, 2.0, None), history(*[8.0] * 8, 4.0, 5.0, 6.0)
    never = history(*[8.0] * 8, None, None, None)
    [row] = [row for row in compared([sparse, dense, never], real) if row.name.startswith("loss")]
    assert (row.name, row.values, row.real) == ("loss, steps 9 to 11", (2.0, 5.0), 2.0)


def test_without_a_real_run_there_is_nothing_to_compare_with() -> None:
    rows = {row.name: row for row in compared([[STEP]], ())}
    assert rows["server steps"].cells == ["server steps", "1", "", "-", "-"]
    assert rows["loss, steps 1 to 1"].cells[1:] == ["0.5", "", "-", "-"]


def test_the_range_holds_one_more_draw_as_often_as_is_said() -> None:
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((40_000, 10))
    inside = (draws[:, 0] >= draws[:, 1:].min(1)) & (draws[:, 0] <= draws[:, 1:].max(1))
    assert inside.mean() == pytest.approx(probability_within(9), abs=0.01) and probability_within(9) == 0.8


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
    assert said["real"] == "night" and said["compared"]["server steps"] == {
        "predicted": 40,
        "low": 40,
        "high": 40,
        "real": 40,
    }
    assert said["repeats"] == 9
    assert len(said["history"]) == 40
    assert {"mean staleness, 40 steps", "bytes up, 40 steps", "loss, steps 33 to 40"} <= set(said["compared"])
    (study / "run.toml").write_text(RUN.format(rounds=3).replace("buffer=2", "buffer=3"), encoding="utf-8")
    assert main([*words, "--json", table]) == 0  # another plan: nothing to compare with
    said = json.loads(Path(table).read_text("utf-8"))
    assert said["real"] is None and said["compared"]["server steps"] == {
        "predicted": 3,
        "low": 3,
        "high": 3,
        "real": None,
    }
    assert "use --real to compare with a run of this one" in capsys.readouterr().out
    assert main([*words, "--real", str(bed.place)]) == 0
    text = Path(page).read_text("utf-8")
    assert (
        "10 runs (2 groups)" in text
        and "the mean over repeats" in text
        and "it should hold 80 % of real runs" in text
    )
    assert "9, with seed 5; this is the first" in text
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
    header = {"origin": 7, "steps": 4, "session": 1, **({} if said is None else {"train_s": said})}
    watched._arrived(2, Message(MessageKind.UPDATE, header, {"update": b"abc"}), 12.0)
    [found] = watched.clients[2].sessions
    assert (found.train_s, found.sent_s, found.arrived_s) == (known, 10.0, 12.0)
    assert (found.bytes_down, found.bytes_up) == (100, 3)


def test_a_model_that_is_sent_after_a_poll_is_not_what_the_update_answers() -> None:
    terms = Terms(plan=RunPlan.of(made("fedavg")), clients=CLIENTS, rounds=3, samples=tuple(SAMPLES))
    begun = genesis.new_run(TASK.name, terms, TASK.initial(0), TASK.layout)
    watched = Observed(begun, begun.coordinator())
    client, frames = watched._of(2), {"model": b"abcd"}
    watched._sent(client, Message(MessageKind.POLL), 6, 1.0)
    watched._sent(client, Message(MessageKind.MODEL, {}, frames), 7, 2.0)
    assert (client.asked_s, client.asked_bytes, client.models) == (1.0, 0, {7: (2.0, 4)})
    watched._sent(client, Message(MessageKind.INTERRUPT, {}, frames), 8, 3.0)
    assert (client.asked_s, client.asked_bytes) == (3.0, 4)
    for session, steps in ((1, 0), (2, 5)):
        header = {"origin": 6 + session, "steps": steps, "session": session, "train_s": 0.25}
        watched._arrived(2, Message(MessageKind.UPDATE, header, {"update": b"abc"}), 5.0)
    [none], [found] = client.unstarted, client.sessions
    assert (none.steps, none.first, found.steps, found.first) == (0, True, 5, False)
    assert (found.sent_s, found.asked_s, found.asked_bytes, found.arrived_s) == (3.0, 3.0, 4, 5.0)
