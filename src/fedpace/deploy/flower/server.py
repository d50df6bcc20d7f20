"""A ServerApp's part: the study in the app's folder, served over a Grid."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedpace.algorithm import Algorithm
from fedpace.deploy.expectations import Patience
from fedpace.deploy.flower.letters import PostOffice
from fedpace.deploy.flower.places import study_name, study_place
from fedpace.deploy.flower.transport import GridServer
from fedpace.deploy.projects.serving import ServedRun, StudyFolder, serve_study
from fedpace.disk import files
from fedpace.errors import FedpaceError, StorageError, require
from fedpace.logs import LOG
from fedpace.pace.protocol import Continuous, Interruptible
from fedpace.record import Run
from fedpace.record.store.store import Store
from fedpace.sim.observer import Observer, StepRecord
from fedpace.vector import Vector

RESULT = "run.json"  # in a run's folder once it is over
GRACE_S = 600.0  # one that starts has to reach every node anew, some seconds for each letter
OWN = "fedpace's own transport (`fedpace serve`) has it"


def serve_on_grid(project: Path, post: PostOffice, config: Mapping[str, Any], run_id: str) -> Run:
    """Serve the study in `project` to its end; after any other end, the next Flower run continues it."""
    study = _study(project, config)
    require_request_and_reply(study.algorithm)
    name = _name(study, study_name(config))
    eager = isinstance(study.algorithm.pace.client, Continuous)
    in_order = config.get("in-order", False) is True
    waits_for = study.settings.wait_for or (study.settings.clients if in_order else 1)

    async def listen() -> GridServer:
        transport = GridServer(
            post, study.settings.clients, run=run_id, wait_for=waits_for, welcomes_at_once=eager
        )
        transport.start()
        return transport

    print(f"{name}: {study.algorithm.name}, plan {study.plan.digest.hex()}\n{study.place(name)}")
    watching = _Printed(study.settings.rounds)
    which = ServedRun(name=name, store=_store(), in_order=in_order, observers=[watching])
    with _warnings_shown():
        run = serve_study(study, listen, which)
    if run.stopped is not None:
        raise FedpaceError(f"{run.stopped}; the next `flwr run` continues after step {len(run.history)}")
    files.write(study.place(name) / RESULT, run.to_json(named=True).encode())
    print(run)
    return run


def require_request_and_reply(algorithm: Algorithm) -> None:
    """ConfigError for what a fleet of request and reply cannot have, with the reason."""
    behaviour, pace = algorithm.pace.client, type(algorithm.pace).__name__
    polled = isinstance(behaviour, Continuous) and behaviour.polled
    silent = f"one whose clients answer requests: on Flower a client cannot start an upload; {OWN}"
    require(not polled, "pace", pace, silent)
    still = f"one that lets clients finish: a SuperNode takes no message while it trains; {OWN}"
    require(not isinstance(behaviour, Interruptible), "pace", pace, still)


def _study(project: Path, config: Mapping[str, Any]) -> StudyFolder:
    """run.toml and client.py of the app; what `flwr run --run-config` says goes before."""
    study = StudyFolder.read(project)
    settings = replace(study.settings, folder=study_place(config), patience=_patient(study.settings.patience))
    if algorithm := config.get("algorithm"):
        settings = replace(settings, algorithm=str(algorithm))
    if rounds := config.get("rounds"):
        settings = replace(settings, rounds=rounds)
    return StudyFolder(settings, study.program, settings.built(study.program.rules))


def _patient(patience: Patience) -> Patience:
    """A node says at once that it is gone; one that does not is waited for as long as a new ServerApp takes."""
    return replace(patience, grace_s=max(patience.grace_s, GRACE_S))


def _name(study: StudyFolder, name: str) -> str:
    """The run that is not over yet; a new one after the last."""
    names = (name if k == 1 else f"{name}-{k}" for k in range(1, sys.maxsize))
    return next(each for each in names if not (study.place(each) / RESULT).exists())


def _store() -> Store | None:
    try:
        return Store()
    except StorageError as error:
        print(f"note: {error}; the run is not in the run store")
        return None


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Print fedpace's warnings, for `flwr log`: which node takes no part, and why."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setLevel(logging.WARNING)
    LOG.addHandler(handler)
    try:
        yield
    finally:
        LOG.removeHandler(handler)


class _Printed(Observer):
    """A line per server step, for `flwr log`."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def recorded(self, record: StepRecord, x: Vector) -> None:
        clients = ", ".join(map(str, record.clients))
        print(f"step {record.version} of {self.rounds}: clients {clients}", flush=True)
