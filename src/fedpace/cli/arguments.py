"""The arguments of `fedpace run`: declared, written down in the run store, and read back."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fedpace.cli import experiment, output
from fedpace.cli.monitoring import add_track_option
from fedpace.cli.parser import Parser, count
from fedpace.cli.target import stop

EVERY = "60s"  # real time between checkpoints
_WORDS = (
    "task",
    "clients",
    "partition",
    "model",
    "population",
    "rounds",
    "compute",
    "device",
    "precision",
    "workers",
    "evaluate_every",
    "dp",
    "client_test",
    "label_smoothing",
    "client_metrics_every",
    "personalise",
)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    experiment.add_algorithm(parser, "a name from `fedpace list`, module:function, or an experiment file")
    experiment.add_options(parser)
    add_stop(parser)
    parser.add_argument(
        "--client-metrics-every",
        type=count,
        metavar="N",
        help="server steps between evaluations of every client (`run.client_metrics`)",
    )
    parser.add_argument(
        "--personalise",
        type=count,
        metavar="N",
        help="fine-tune for N local steps on every client's own data before evaluating it",
    )
    parser.add_argument(
        "--initial",
        metavar="MODEL",
        help="start from a saved run's model (its name) or from a file (.safetensors)",
    )
    add_save_as(parser)
    _add_run_store_options(parser)
    output.add_options(parser)


def add_stop(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stop",
        type=stop,
        action="append",
        default=[],
        metavar="RULE",
        help="stop a run early: accuracy=0.9, patience=10 (evaluations), traffic=5MB, virtual_seconds=300 or "
        "real_seconds=60 (repeatable; the first one met stops it)",
    )


def add_save_as(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save-as", metavar="FILE.toml", help="write these settings as an experiment file")


def _add_run_store_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("run store")
    group.add_argument("--name", metavar="NAME", help="the run's name in the store (default: generated)")
    add_checkpoint_option(group)
    group.add_argument("--no-store", action="store_true", help="do not save this run")
    add_track_option(group)


def add_study_options(parser: argparse.ArgumentParser, *, plot: str, csv: str) -> argparse._ArgumentGroup:
    """Where the runs of a study are saved, and what is made of them: what its picture shows, and its file's lines."""
    group = parser.add_argument_group("run store")
    group.add_argument(
        "--name", metavar="NAME", help="save the runs as NAME/row/seed (default: generated names)"
    )
    group.add_argument("--no-store", action="store_true", help="do not save the runs")
    out = parser.add_argument_group("output")
    out.add_argument("--plot", metavar="FILE", help=plot)
    out.add_argument("--csv", metavar="FILE", help=csv)
    out.add_argument("--latex", metavar="FILE", help="write the table for a paper (booktabs)")
    out.add_argument("--markdown", metavar="FILE", help="write the table in Markdown")
    out.add_argument("--quiet", action="store_true", help="print the table only")
    return out


def add_checkpoint_option(group: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    group.add_argument(
        "--checkpoint-every",
        default=EVERY,
        metavar="N",
        help="server steps (100) or real seconds (30s) between checkpoints (default: %(default)s)",
    )


def words(
    algorithm: str, args: argparse.Namespace, seed: int, settings: Iterable[tuple[str, Any]]
) -> tuple[str, ...]:
    """Arguments of `fedpace run` for one algorithm and one seed."""
    values = {name: getattr(args, name, None) for name in _WORDS} | experiment.places(args)
    if values["population"] is not None and Path(values["population"]).is_file():
        values["population"] = str(Path(values["population"]).resolve())
    options = [
        (f"--{name.replace('_', '-')}", str(value)) for name, value in values.items() if value is not None
    ]
    if getattr(args, "initial", None) is not None:
        options.append(("--initial", experiment.initial_model(args.initial)))
    options += [("--stop", f"{name}={value}") for name, value in args.stop]
    chosen = [("--set", f"{name}={value!r}") for name, value in settings]
    return (algorithm, *(word for pair in [*options, ("--seed", str(seed)), *chosen] for word in pair))


def parse(words: Sequence[str], workers: int | None = None) -> argparse.Namespace:
    """The arguments of the `fedpace run` that these words began."""
    parser = Parser(prog="fedpace run")
    add_run_arguments(parser)
    known: argparse.Namespace = parser.parse_args(words)
    if workers is not None:
        known.workers = workers
    return known
