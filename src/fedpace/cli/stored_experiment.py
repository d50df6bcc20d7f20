"""A saved run as an experiment file, which makes it again."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedpace.cli import arguments
from fedpace.cli.experiment_file import of_run, write_file
from fedpace.disk.files import require_writable
from fedpace.errors import ConfigError, require
from fedpace.untrusted import brief

if TYPE_CHECKING:
    from fedpace.record.rows import Entry


MEASURED = ("client metrics every", "personalise")


def export(entries: Sequence[Entry], output: str, modules: str | None) -> int:
    """Write the experiment file of one run."""
    require(len(entries) == 1, "runs for an experiment file", [entry.name for entry in entries], "one run")
    require_writable(output, "--output")
    args = arguments_of(entries[0])
    args.modules = modules
    write_file(output, of_run(args), args)
    print(output)
    return 0


def arguments_of(entry: Entry) -> argparse.Namespace:
    """The arguments of the `fedpace run` that makes this run again."""
    args = arguments.parse(list(entry.arguments) or _words(entry))
    args.name = None  # the run that has it keeps it
    args.rounds = entry.rounds
    return args


def _words(entry: Entry) -> list[str]:
    """Those of a run that a Python program made: functions by their places, everything else written out."""
    from fedpace.study.rebuild import stop_from

    text, places = entry.experiment, entry.about.get("made_by", {})
    algorithm = places.get("algorithm") or _ours("algorithm", text["algorithm"])
    options = {
        "task": places.get("task") or _ours("task", text["task"]),
        "seed": str(entry.seed),
        "evaluate-every": _interval(text.get("evaluate every", "None")),
        **({"population": _ours("population", text["population"])} if text["population"] != "None" else {}),
        **{name.replace(" ", "-"): text[name] for name in MEASURED if name in text},
        **({"compute": text["compute"].strip("'")} if "compute" in text else {}),
    }
    stop = stop_from(text.get("stop", "None")) or {}
    rules = [f"--stop={name}={value}" for name, value in stop.items()]
    return [algorithm, *(f"--{name}={value}" for name, value in options.items()), *rules]


def _ours(part: str, text: str) -> str:
    """The text, once it is sure that it can be rebuilt."""
    from fedpace.study import rebuild

    readers = {
        "algorithm": rebuild.algorithm_from,
        "task": rebuild.task_from,
        "population": rebuild.population_from,
    }
    if "<function " in text:
        raise ConfigError(
            f"{part} of a run must be without plain functions to be in a file; got {brief(text)}"
        )
    try:
        readers[part](text)
    except ConfigError as error:
        raise ConfigError(
            f"{part} of a run must be named as module:function to be in a file ({error})"
        ) from None
    return text


def _interval(text: str) -> str:
    """As --evaluate-every is told."""
    from fedpace.study.rebuild import evaluation_from

    every = evaluation_from(text)
    if every is None:
        return "never"
    if every.steps is not None:
        return str(every.steps)
    return f"{every.seconds:f}s" if every.seconds is not None else f"{every.size_bytes:f}B"
