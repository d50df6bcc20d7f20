"""What keeping a run costs, as a share of the demo's run: python benchmarks/recording.py

The demo's first run is executed as `fedpace run` executes it, alternately without and with the run store.

    per step    history, traces and the question whether a checkpoint is due, in a warm process
    per run     opening the store, describing the run, model and timeline at the end, in a warm process
    whole       whole commands, imports included, each in a process of its own

All are processor seconds, medians over the repetitions, so that other work on the machine does not count; waiting
for the disk (one fsync of the model at the end of a run, and one commit a second) does not count either.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from fedpace.cli import execution, main
from fedpace.record.run import history
from fedpace.record.store.checkpointer import Checkpointer
from fedpace.record.store.writer import Writer

DEMO = (
    "run fedgm --task digits --clients 100 --partition dirichlet:0.5 --set epochs=2 --rounds 50 "
    "--set clients_per_round=20 --set server_lr=3 --quiet"
)
PER_STEP: tuple[tuple[Any, str], ...] = (
    (Writer, "recorded"),
    (Checkpointer, "save_if_due"),
    (history.History, "activity"),
    (history.History, "fate"),
)
PER_RUN: tuple[tuple[Any, str], ...] = (
    (execution, "open_store"),
    (execution, "_begin"),
    (execution, "_end"),
    (Checkpointer, "resume"),
)


def timer_seconds(calls: int = 20_000) -> float:
    """What reading the clock twice adds to a measured call."""
    return sum(-(time.process_time() - time.process_time()) for _ in range(calls)) / calls


TIMER = timer_seconds()


@contextlib.contextmanager
def timed(targets: tuple[tuple[Any, str], ...]) -> Iterator[dict[str, float]]:
    """Processor seconds inside each of these functions while the context lasts."""
    spent: dict[str, float] = {}
    before = [(owner, name, getattr(owner, name)) for owner, name in targets]

    def watched(label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            began = time.process_time()
            try:
                return function(*args, **options)
            finally:
                spent[label] = spent.get(label, 0.0) + time.process_time() - began - TIMER

        return call

    for owner, name, function in before:
        setattr(owner, name, watched(f"{owner.__name__.rpartition('.')[2]}.{name}", function))
    try:
        yield spent
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def run(*more: str) -> float:
    """Processor seconds of one demo run in this process."""
    began = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*DEMO.split(), *more]) == 0
    return time.process_time() - began


def command(*more: str) -> float:
    """Processor seconds of the command in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = "import sys; from fedpace.cli import main; sys.exit(main())"
    subprocess.run([sys.executable, "-c", code, *DEMO.split(), *more], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(repetitions: int) -> None:
    run("--no-store")
    run()
    plain, steps, whole = [], [], []
    for _ in range(repetitions):
        plain.append(run("--no-store"))
        with timed(PER_STEP) as per_step, timed(PER_RUN) as per_run:
            run()
        steps.append(sum(per_step.values()))
        whole.append(sum(per_run.values()))
    seconds = statistics.median(plain)
    print(f"demo run without recording   {1e3 * seconds:8.1f} ms")
    for label, values in (("per step", steps), ("per run", whole)):
        spent = statistics.median(values)
        print(f"    {label:<24} {1e3 * spent:8.2f} ms, {spent / seconds:.2%}")
    for label, spent in sorted({**per_step, **per_run}.items(), key=lambda item: -item[1]):
        print(f"        {label:<20} {1e3 * spent:8.2f} ms")
    alone = [(command("--no-store"), command()) for _ in range(repetitions)]
    without, kept = (statistics.median(column) for column in zip(*alone, strict=True))
    print(
        f"whole command                {1e3 * without:8.1f} ms, kept {1e3 * kept:.1f} ms: {kept / without - 1:+.2%}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=15)
    repetitions = parser.parse_args().repetitions
    with tempfile.TemporaryDirectory() as home:
        os.environ["FEDPACE_HOME"] = home
        measure(repetitions)
