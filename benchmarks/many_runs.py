"""What `fedpace runs` costs with many runs in the store, beside what it costs with one: processor seconds.

python benchmarks/many_runs.py [RUNS] [STEPS]
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import sqlalchemy as sql

from fedpace.record import rows
from fedpace.record.store.store import Store
from fedpace.record.store.tables import RUNS, STEPS
from fedpace.sim.observer import StepRecord

REPEATS = 5


def fill(home: Path, runs: int, steps: int) -> None:
    """Runs as `fedpace run` keeps them: done, with a folder each."""
    store = Store(home)
    about = {"versions": {"python": "3.11"}, "machine": {"host": "here", "cores": 2}, "papers": ["fedavg"]}
    options = {"algorithm": "fedavg", "task": "digits", "rounds": steps, "fingerprint": "0" * 32}
    text = {"algorithm": "Algorithm(" + "x" * 900 + ")", "task": "digits", "seed": "0"}
    first = store.begin(name="run-0", seed=0, experiment=text, about=about, **options)
    store.set(first.id, "done", counters={"sessions": 10, "solved": 9}, summary={"compute": "inline"})
    with store._writing() as connection:
        row = dict(connection.execute(sql.select(RUNS)).mappings().one())
        if more := [{**row, "id": first.id + n, "name": f"run-{n}"} for n in range(1, runs)]:
            connection.execute(sql.insert(RUNS), more)
        for number in range(first.id, first.id + runs):
            records = [rows.plain(number, record(version), 0.1 * version) for version in range(1, steps + 1)]
            connection.execute(sql.insert(STEPS), records)
    for number in range(runs):
        folder = store.folder(f"run-{number}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lock").touch()


def record(version: int) -> StepRecord:
    metrics = {"accuracy": 0.9, "loss": 0.3}
    return StepRecord(version, float(version), tuple(range(20)), (0,) * 20, 1000, 1000, metrics)


def processor_seconds(home: Path, *words: str) -> float:
    """The least of several, of a process of its own."""
    command = [sys.executable, "-c", "import sys; from fedpace.cli import main; sys.exit(main())", *words]
    spent = []
    for _ in range(REPEATS):
        before = children()
        env = {**os.environ, "FEDPACE_HOME": str(home)}
        subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
        spent.append(children() - before)
    return min(spent)


def children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    runs, steps = (int(word) for word in [*sys.argv[1:], "5000", "50"][:2])
    with tempfile.TemporaryDirectory() as scratch:
        many, few = Path(scratch) / "many", Path(scratch) / "few"
        fill(many, runs, steps)
        fill(few, 1, steps)
        with_one, with_many = (processor_seconds(home, "runs") for home in (few, many))
    print(f"fedpace runs, processor seconds: {with_one:.2f} with 1 run, {with_many:.2f} with {runs:,} runs")


if __name__ == "__main__":
    main()
