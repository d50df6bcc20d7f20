"""What CA2FL's cache of everybody's last update takes, at full precision and packed: python benchmarks/cache_memory.py

A hundred clients deliver once; the memory is that of the process, measured before and after, each line in a process
of its own. `bytes` is what the cache says it holds. Spilled to a file, the rows are the system's to keep or not.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from fedpace.aggregate import Cached, Contribution
from fedpace.random import stream

CLIENTS, ENTRIES = 100, 582_026  # DeFedAvg's network on 28 x 28 images
LINES = {"32 bits": "32", "8 bits": "8", "4 bits": "4", "2 bits": "2", "32 bits, spilled": "spill"}


def resident_bytes() -> int:
    """Memory of this process that is nobody else's and no file's."""
    gc.collect()
    fields = dict(
        line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line
    )
    return int(fields["RssAnon"].split()[0]) * 1024


def cache(form: str, folder: str) -> Cached:
    return Cached(spill=folder) if form == "spill" else Cached(None if form == "32" else int(form))


def measure(form: str) -> dict[str, float]:
    x, source = np.zeros(ENTRIES, np.float32), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        rule = cache(form, folder)
        state = deliver(rule, rule.init(x, CLIENTS), range(1), x, source)  # compiles and warms up
        before = resident_bytes()
        state = deliver(rule, state, range(1, CLIENTS), x, source)
        found = {
            "resident": resident_bytes() - before,
            "bytes": sum(map(rule.format.nbytes, state.rows.values())),
        }
    return found


def deliver(
    rule: Cached, state: object, clients: range, x: np.ndarray, source: np.random.Generator
) -> object:
    for client in clients:
        delta = source.standard_normal(ENTRIES, np.float32)
        update = Contribution(client, delta, rng=lambda client=client: stream(0, "cache", client, 1))
        state = rule.add(update, x, x, state)
        if client % 10 == 9:  # a buffer is full
            _, state = rule.result(state)
    return state


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=LINES.values(), help="one line, here, as JSON")
    only = parser.parse_args().only
    if only is not None:
        print(json.dumps(measure(only)))
        return
    whole = CLIENTS * ENTRIES * 4
    print(f"{CLIENTS} clients, {ENTRIES:,} entries: {whole / 1e6:.1f} MB as float32")
    print(f"{'cache':20}{'bytes':>12}{'resident':>12}{'of float32':>12}")
    for name, form in LINES.items():
        command = [sys.executable, __file__, "--only", form]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        share = found["resident"] / whole
        print(
            f"{name:20}{found['bytes'] / 1e6:9.1f} MB{found['resident'] / 1e6:9.1f} MB{share:12.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
