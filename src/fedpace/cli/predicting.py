"""`fedpace deploy measure` and `predict`: devices from a journal, and the deployment that they predict."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedpace.cli import deployed, show
from fedpace.cli.parser import count

if TYPE_CHECKING:
    from fedpace.deploy.prediction.measured import MeasuredPopulation
    from fedpace.deploy.prediction.predicting import Prediction

Action = Callable[[str, str, Callable[[argparse.Namespace], int]], argparse.ArgumentParser]


def add_actions(action: Action) -> None:
    fitted = action(
        "measure", "Estimate every client's speed, link and availability from a run's journal.", _measure
    )
    fitted.add_argument(
        "run", metavar="RUN", help="a deployed run: its name, its folder, or its study's folder"
    )
    fitted.add_argument(
        "-o", "--output", metavar="FILE", default="measured.json", help="default: %(default)s"
    )
    fitted.add_argument(
        "--data", metavar="FILE", help="client.py that defines the plan's custom rules (default: the study's)"
    )

    predicted = action(
        "predict", "Simulate a study on measured devices and compare with a real run.", _predict
    )
    predicted.add_argument("study", metavar="RUN.TOML", help="a study's run.toml, or its folder")
    predicted.add_argument(
        "--population", metavar="FILE", required=True, help="a file written by `fedpace deploy measure`"
    )
    predicted.add_argument(
        "--data", metavar="FILE", help="client.py with all clients' data (default: the study's)"
    )
    predicted.add_argument(
        "-n", "--clients", type=count, metavar="N", help="number of clients (default: as in run.toml)"
    )
    predicted.add_argument(
        "--real", metavar="RUN", help="a deployed run to compare with (default: the measured one)"
    )
    predicted.add_argument(
        "--repeats",
        type=count,
        metavar="N",
        default=9,
        help="simulate N orders of arrival, for a mean and a range (default: %(default)s)",
    )
    predicted.add_argument("--json", metavar="FILE", help="write the table and the predicted history")
    predicted.add_argument("--page", metavar="FILE", help="write all runs as one web page")


def _measure(args: argparse.Namespace) -> int:
    from fedpace.disk import files

    files.require_writable(args.output, "--output")
    found = _measured(args.run, args.data)
    files.write(args.output, found.to_json().encode())
    _show_devices(found)
    print(args.output)
    return 0


def _measured(run: str, data: str | None) -> MeasuredPopulation:
    from fedpace.deploy.prediction.measured import measured
    from fedpace.deploy.prediction.sessions import observe

    folder = deployed.journal_folder(run)
    program = deployed.program_of(data, folder)
    return measured(observe(folder, None if program is None else program.rules), folder.name)


def _show_devices(found: MeasuredPopulation) -> None:
    rows = [
        (
            str(device.client),
            f"{device.sessions:,}",
            f"{device.train_s:.3g}",
            f"{device.train_s / device.steps:.3g}",
            f"{1000 * device.latency_s:.3g}",
            "-" if device.bytes_per_s is None else f"{8e-6 * device.bytes_per_s:.3g}",
            f"{found.share_available(device):.0%}",
        )
        for device in found.devices
    ]
    titles = ("client", "sessions", "training s", "step s", "latency ms", "Mbit/s", "available")
    show.table(titles, rows, align="r" * len(titles))


def _predict(args: argparse.Namespace) -> int:
    from fedpace.deploy.prediction.measured import read
    from fedpace.deploy.prediction.predicting import predict
    from fedpace.deploy.projects.program import Program
    from fedpace.deploy.projects.serving import StudyFolder
    from fedpace.disk import files

    for option in ("json", "page"):
        if path := getattr(args, option):
            files.require_writable(path, f"--{option}")
    place = Path(args.study)
    study = StudyFolder.read(place.parent if place.is_file() else place)
    if args.clients is not None:
        study = replace(study, settings=replace(study.settings, clients=args.clients))
    program = study.program if args.data is None else Program(args.data)
    real = None if args.real is None else _measured(args.real, args.data)
    prediction = predict(study, read(args.population), program, real, repeats=args.repeats)
    _show_prediction(prediction)
    if args.json:
        files.write(args.json, prediction.to_json().encode())
    if args.page:
        files.write(args.page, prediction.to_html().encode())
    return 0


def _show_prediction(prediction: Prediction) -> None:
    from fedpace.deploy.prediction.comparing import TITLES

    show.table(TITLES, prediction.cells(), align="lrrrr")
    if prediction.about_range:
        print(f"note: {prediction.about_range}")
    if prediction.real is None:
        print("note: the measured run had a different plan; use --real to compare with a run of this one")
