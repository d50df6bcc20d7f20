"""Connections that break, machines that restart, disks that are lost or old: a run goes on exactly, or resynchronises.

Whatever happens, the journal replays to the same bits, and every update taken is what its data make.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.deploy.deployed import CLIENTS, TASK, VARIANTS, Bed

from fedpace import Run
from fedpace.deploy import Replay, replay

PACINGS = ["fedavg", "fedbuff", "fedasync", "defedavg_iid", "defedavg_niid", "favano", "quafl"]
STATEFUL = ["scaffold", "two_way, ef21", "fedbaca", "fednova_vr"]
PATIENT = {"rounds": 12}


def checked(bed: Bed, run: Run, *, retrain: bool = True) -> Replay:
    again = replay(bed.place, TASK if retrain else None)
    assert again.run.model.tobytes() == run.model.tobytes()
    assert again.different == ()
    assert len(run.history) == bed.options["rounds"]
    assert np.isfinite(run.model).all()
    return again


@pytest.mark.parametrize("name", [*PACINGS, *STATEFUL])
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


@pytest.mark.parametrize("name", [*PACINGS, *STATEFUL])
def test_a_server_that_is_killed_continues_with_everything_it_acknowledged(name: str, tmp_path: Path) -> None:
    async def kills(bed: Bed) -> None:
        for version in (2, 5, 8):
            await bed.reached(version)
            await bed.kill_server()

    bed = Bed(VARIANTS[name], tmp_path, **PATIENT)
    run = bed.run(kills)
    checked(bed, run)
    assert run.counters["resynchronised"] == run.counters["malformed"] == 0
