"""Connections that break, machines that restart, disks that are lost or old: a run goes on exactly, or resynchronises.

Whatever happens, the journal replays to the same bits, and every update taken is what its data make.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.deploy.deployed import CLIENTS, TASK, VARIANTS, Bed, copied

from fedpace import Run
from fedpace.deploy import Replay, replay

PACINGS = [
    "fedavg",
    "autonomous_fedgm",
    "fedbuff",
    "fedasync",
    "defedavg_iid",
    "defedavg_niid",
    "favano",
    "quafl",
]
STATEFUL = ["scaffold", "two_way, ef21", "fedbaca", "fednova_vr"]
PATIENT = {"rounds": 12}


def algorithms(*quick: str) -> pytest.MarkDecorator:
    """Every pacing rule and every kind of memory; all but a few by `--all` only."""
    cases = [
        pytest.param(name, marks=() if name in quick else pytest.mark.long) for name in (*PACINGS, *STATEFUL)
    ]
    return pytest.mark.parametrize("name", cases)


def checked(bed: Bed, run: Run, *, retrain: bool = True) -> Replay:
    again = replay(bed.place, TASK if retrain else None)
    assert again.run.model.tobytes() == run.model.tobytes()
    assert again.different == ()
    assert len(run.history) == bed.options["rounds"]
    assert np.isfinite(run.model).all()
    seconds = [step.virtual_seconds for step in run.history]
    assert seconds == sorted(seconds)
    return again


@algorithms("defedavg_niid", "quafl", "fedbaca")
def test_broken_connections_change_nothing_but_the_order(name: str, tmp_path: Path) -> None:
    async def cuts(bed: Bed) -> None:
        random = Random(name)
        while not bed.server.done():
            bed.cut(random.randrange(CLIENTS))
            await asyncio.sleep(random.random() / 100)

    bed = Bed(VARIANTS[name], tmp_path, **PATIENT)
    run = bed.run(cuts)
    checked(bed, run)
    assert run.counters["disconnected"] > 0
    assert run.counters["resynchronised"] == run.counters["malformed"] == 0


@algorithms("fedbuff", "favano", "scaffold")
def test_a_server_that_is_killed_continues_with_everything_it_acknowledged(name: str, tmp_path: Path) -> None:
    async def kills(bed: Bed) -> None:
        for version in (2, 5, 8):
            await bed.reached(version)
            await bed.kill_server()

    bed = Bed(VARIANTS[name], tmp_path, **PATIENT)
    run = bed.run(kills)
    checked(bed, run)
    assert run.counters["resynchronised"] == run.counters["malformed"] == 0


def controls(again: Replay) -> tuple[np.ndarray, np.ndarray]:
    """SCAFFOLD's c, and the mean of all c_i as the clients remember them."""
    zero = np.zeros(TASK.layout.size)
    own = [zero if (c := again.clients[i].control) is None else c for i in again.clients]
    return again.coordinator.server.state.control.c, np.sum(own, axis=0) / CLIENTS


@algorithms("scaffold", "defedavg_iid")
@pytest.mark.parametrize("disk", ["kept", "lost", "old"])
def test_a_client_that_restarts_goes_on_or_is_resynchronised(name: str, disk: str, tmp_path: Path) -> None:
    place, backup = tmp_path / "client-0", tmp_path / "backup"

    async def restarts(bed: Bed) -> None:
        await bed.reached(3)
        copied(place, backup)
        await bed.reached(8)
        await bed.kill_client(0)
        if disk != "kept":
            shutil.rmtree(place)
        if disk == "old":
            copied(backup, place)
        bed.join(0)

    bed = Bed(VARIANTS[name], tmp_path, rounds=16, disks=True)
    run = bed.run(restarts)
    again = checked(bed, run)
    assert run.counters["malformed"] == 0
    if disk == "kept":
        assert run.counters["resynchronised"] == 0
    if name == "scaffold":
        c, mean = controls(again)
        np.testing.assert_allclose(c, mean, rtol=1e-9, atol=1e-12)


@algorithms("scaffold", "fedasync")
def test_a_server_restored_from_an_old_backup_resynchronises_whoever_knows_more(
    name: str, tmp_path: Path
) -> None:
    async def restores(bed: Bed) -> None:
        await bed.reached(2)
        backup = copied(bed.place, tmp_path / "backup")
        await bed.reached(8)
        await bed.kill_server(backup)

    bed = Bed(VARIANTS[name], tmp_path, rounds=12)
    run = bed.run(restores)
    again = checked(bed, run)
    assert run.counters["malformed"] == 0
    assert run.counters["resynchronised"] > 0
    if name == "scaffold":
        c, mean = controls(again)
        np.testing.assert_allclose(c, mean, rtol=1e-9, atol=1e-12)
