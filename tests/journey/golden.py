"""The golden table: small runs of every named algorithm, whose results stay unless a change means to change them.

A row of `golden.json` is one run: for each server step its version, virtual seconds, clients, staleness and bytes,
exactly; of the final model its norm and 20 projections, within rounding of the task's precision. A run that
stalls, diverges or is refused has the error in its row.

    python tests/journey/golden.py --write                        rewrite the rows that differ
    python tests/journey/golden.py --write 'scaffold*' '*/digits' only those of these names

A change that means to change results rewrites the rows it names, and no others, in a commit of its own.
`scripts/same-bits OLD NEW` compares two commits bit for bit (`--bits`, `--compare`). Only names of the public
contract are used here, so that older and newer versions of the library run the same cells.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from golden_rows import Row, differences, first_words, read, row_of, write
from sklearn.datasets import load_digits

import fedpace
from fedpace import algorithms, errors, tasks
from fedpace.sim import Population

TABLE = Path(__file__).with_name("golden.json")
CLIENTS = 8
ROUNDS = 5
TIMES = (1.0, 0.5, 2.0, 1.25, 0.75, 3.0, 1.5, 0.625)
POPULATIONS: dict[str, Population | None] = {
    "equal": None,
    "unequal": Population.half_normal(
        TIMES, base_s=0.25, up_s=(0.5, 0.25, 0.125, 1.0) * 2, down_s=(0.125, 0.75) * 4
    ),
    "come-and-go": Population.from_times(TIMES, up_s=0.25, down_s=0.125, drop=0.15).with_windows(
        [(client, 0.0, 2.0 + 0.75 * client) for client in range(6)]
        + [(client, 3.0 + 0.5 * client, math.inf) for client in range(4)]
        + [(client, 1.5 * (client - 5), math.inf) for client in (6, 7)]
    ),
    # Seconds that follow from bytes: kept to a few rows, so that a change of frames changes the seconds of these only.
    "slow-links": Population(
        step_s=tuple(t / 8 for t in TIMES),
        up_s_per_byte=tuple(2e-3 / t for t in TIMES),
        down_s_per_byte=5e-4,
        mode="overlap",
    ),
    "all-leave": Population.from_times(TIMES, windows=[(client, 0.0, 2.25) for client in range(CLIENTS)]),
}
SOME = (
    *("fedavg", "fedbuff", "ca2fl", "fednlaca", "two_way"),
    *("defedavg_niid", "defedavg_iid", "favano", "quafl"),
)
ONLY_FOR = {"slow-links": SOME, "all-leave": SOME}  # other populations: every variant

LOCAL = {"steps": 2}
UNEQUAL = {"steps": (1, 2, 3, 4) * 2}
BUFFER = LOCAL | {"buffer": 3}
BUFFERED = BUFFER | {"concurrency": 5}
POLLED = LOCAL | {"draws": 3}
INTERRUPTING = {"steps": 6, "clients_per_round": 3}
SCALED: dict[str, Mapping[str, Any]] = {  # defaults where nothing is said; sizes that suit eight clients
    "asysg": {"buffer": 3},
    "autonomous_fedgm": BUFFERED | UNEQUAL,
    "ca2fl": BUFFERED,
    "defedavg_iid": BUFFER,
    "defedavg_niid": POLLED,
    "favano": INTERRUPTING,
    "fedasync": LOCAL | {"concurrency": 5},
    "fedbuff": BUFFERED,
    "fednova": UNEQUAL,
    "fednova_vr": UNEQUAL,
    "fedprox": UNEQUAL,
    "fedrep": LOCAL | {"head_epochs": 1},
    "fedsgd": {},
    "lag": {},
    "mf_ca2fl": BUFFERED,
    "multistage_fedgm": LOCAL | {"rounds": ROUNDS},
    "quafl": INTERRUPTING,
}


@dataclass(frozen=True)
class Variant:
    """An algorithm with arguments beyond those of `SCALED`, and perhaps sessions that are lost."""

    algorithm: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    drop: float = 0.0

    def made(self) -> fedpace.Algorithm:
        given = {**SCALED.get(self.algorithm, LOCAL), **self.arguments}
        made: fedpace.Algorithm = getattr(algorithms, self.algorithm)(**given)
        return made


VARIANTS: dict[str, Variant] = {name: Variant(name) for name in algorithms.__all__} | {
    "fedavg+diverging": Variant("fedavg", {"client_lr": 1e155}),
    "fedbuff+diverging": Variant("fedbuff", {"client_lr": 1e155}),
    "fedavg+sampled": Variant("fedavg", {"clients_per_round": 3, "weighting": "samples", "steps": None}),
    "fednova+momentum": Variant("fednova", {"momentum": 0.5, "prox_mu": 0.1, "clients_per_round": 4}),
    "scaffold+sampled": Variant("scaffold", {"clients_per_round": 3}),
    "scaffold+drop": Variant("scaffold", drop=0.4),
    "fednova_vr+drop": Variant("fednova_vr", drop=0.4),
    "fedasync+max_staleness": Variant("fedasync", {"max_staleness": 2, "prox_mu": 0.1}),
    "fedbuff+immediate": Variant("fedbuff", {"dispatch": "immediate", "beta": 0.9, "nu": 0.9}),
    "fedbuff+max_staleness": Variant("fedbuff", {"staleness": "poly", "max_staleness": 1}),
    "ca2fl+immediate": Variant("ca2fl", {"dispatch": "immediate"}),
    "ca2fl+cache_bits": Variant("ca2fl", {"cache_bits": 4}),
    "mf_ca2fl+cache_bits": Variant("mf_ca2fl", {"cache_bits": 4, "quantize_fresh": True}),
    "autonomous_fedgm+history": Variant("autonomous_fedgm", {"history": 3, "clients_per_round": 4}),
    "defedavg_niid+reuse_model": Variant("defedavg_niid", {"reuse_model": True}),
    "defedavg_niid+energy_saving": Variant("defedavg_niid", {"energy_saving": True}),
    "defedavg_iid+reuse_model": Variant("defedavg_iid", {"reuse_model": True}),
    "defedavg_iid+distinct": Variant("defedavg_iid", {"distinct": True, "buffer": 6}),
    "asysg+reuse_model": Variant("asysg", {"reuse_model": True}),
    "fednlaa+literal": Variant("fednlaa", {"mode": "literal", "tau": 2.0}),
    "fednlaca+literal": Variant("fednlaca", {"mode": "literal", "tau": 4.0}),
    "fednlaca+sign": Variant("fednlaca", {"codec": "sign", "tau": 0.9}),
    "fedaca+sign": Variant("fedaca", {"codec": "sign", "tau": 0.9}),
    "fedbnlaca+literal": Variant("fedbnlaca", {"mode": "literal"}),
    "fedbnlaca+literal+tau_down": Variant("fedbnlaca", {"mode": "literal", "tau_down": 1.5, "tau": 1.5}),
    "fedbnlaca+tau_down": Variant("fedbnlaca", {"tau_down": 0.95, "tau": 2.0}),
    "fedbaca+literal": Variant("fedbaca", {"mode": "literal"}),
    "fedbaca+tau_down": Variant("fedbaca", {"tau_down": 9.0, "tau": 9.0, "over_n": True}),
    "lag+ps": Variant("lag", {"rule": "ps", "lipschitz": 0.25}),
    "two_way+ef": Variant("two_way", {"memory": "ef", "codec": "entropy:1.59"}),
    # eps: with AMSGrad's default of two_way an entry that another processor's rounding swaps in a top-k is a full step
    "two_way+ef21": Variant(
        "two_way", {"memory": "ef21", "codec": "topk:1/4", "down_codec": "topk:1/4", "eps": 1e-3}
    ),
    "two_way+tau": Variant("two_way", {"tau": 1.5, "tau_down": 0.2, "codec": "topk:1/4"}),
    "two_way+ef21+tau": Variant("two_way", {"memory": "ef21", "tau": 1.0, "codec": "quant:4"}),
    "two_way+buffered": Variant("two_way", {"pace": "buffered", "buffer": 3, "concurrency": 5}),
    "two_way+polled": Variant("two_way", {"pace": "polled", "draws": 3, "per_tensor": True}),
    "two_way+arrivals": Variant("two_way", {"pace": "arrivals", "buffer": 3, "first": "dense"}),
}


def _waves(*shape: int) -> npt.NDArray[np.float64]:
    """Fixed numbers in [-1, 1], the same on every machine, no two of them alike."""
    numbers: npt.NDArray[np.float64] = np.sin(np.arange(1.0, math.prod(shape) + 1))
    return numbers.round(6).reshape(shape)


def _quadratics() -> Any:
    clients = np.arange(CLIENTS)
    return tasks.quadratics(4 * _waves(CLIENTS, 12), 0.5 + clients / 8, weights=1 + clients, initial=0.25)


def _digits() -> Any:
    """Softmax regression in float32, on mixtures of pixels.

    Pixels that are always dark have equal gradients; which of them top-k takes would depend on the processor.
    """
    pixels, labels = load_digits(return_X_y=True)
    inputs = torch.tensor(np.round(pixels @ _waves(64, 16) / 16, 4), dtype=torch.float32)
    model = torch.nn.Linear(16, 10)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(_waves(10, 16) / 4))
        model.bias.copy_(torch.tensor(_waves(10)))
    ends = np.cumsum([0, *range(60, 60 + 20 * CLIENTS, 20)])
    parts = [slice(start, end) for start, end in pairwise(ends)]
    data = [(inputs[part], torch.tensor(labels[part])) for part in parts]
    return tasks.from_torch(model, torch.nn.functional.cross_entropy, data, data[0])


TASKS: dict[str, Callable[[], Any]] = {"quadratics": _quadratics, "digits": _digits}


@cache
def task(name: str) -> Any:
    return TASKS[name]()


@dataclass(frozen=True)
class Cell:
    """One row of the table, to be run."""

    variant: str
    population: str
    task: str

    @property
    def name(self) -> str:
        return f"{self.variant}/{self.population}/{self.task}"

    def devices(self) -> Population | None:
        devices, drop = POPULATIONS[self.population], VARIANTS[self.variant].drop
        return replace(devices or Population(), drop=drop) if drop else devices

    def run(self) -> Row:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # mode="literal" says what it is
                warnings.filterwarnings("ignore", "overflow", RuntimeWarning)  # on the way to divergence
                return row_of(self._simulated())
        except errors.FedpaceError as error:
            partial = getattr(error, "run", None)
            return {"error": first_words(error)} | ({} if partial is None else row_of(partial))

    def _simulated(self) -> Any:
        algorithm = VARIANTS[self.variant].made()
        return fedpace.simulate(
            algorithm, task(self.task), self.devices(), rounds=ROUNDS, seed=3, evaluate_every=None
        )


def _cells() -> Iterator[Cell]:
    for variant in VARIANTS:
        for population in POPULATIONS:
            if variant in ONLY_FOR.get(population, VARIANTS):
                yield from (Cell(variant, population, task) for task in TASKS)


CELLS = {cell.name: cell for cell in _cells()}


def _chosen(patterns: Sequence[str], names: Iterable[str]) -> list[str]:
    return [name for name in names if not patterns or any(fnmatchcase(name, p) for p in patterns)]


def rewrite(patterns: Sequence[str], path: Path = TABLE) -> list[str]:
    """Rewrite the rows of these names that differ or are gone; say what was done."""
    rows, done = read(path), []
    for name in _chosen(patterns, set(rows) - set(CELLS)):
        del rows[name]
        done.append(f"{name}: removed")
    for name in _chosen(patterns, CELLS):
        row = CELLS[name].run()
        row.pop("sha256", None)
        if name not in rows or differences(rows[name], row):
            done.append(f"{name}: {row.get('error', 'written')}")
            rows[name] = row
    order = {name: place for place, name in enumerate(CELLS)}
    write(dict(sorted(rows.items(), key=lambda row: order.get(row[0], len(order)))), path)
    return done


def bits(patterns: Sequence[str]) -> dict[str, Row]:
    """Rows with hashes; what this version of the library cannot run is an error in its row."""
    rows = {}
    for name in _chosen(patterns, CELLS):
        try:
            rows[name] = CELLS[name].run()
        except Exception as error:
            rows[name] = {"error": first_words(error)}
    return rows


def compare(old: Path, new: Path) -> list[str]:
    """What differs in rows that the older version has; an algorithm that is new changes no result."""
    after = read(new)
    return [
        f"{name}: {what}"
        for name, row in read(old).items()
        for what in (differences(row, after[name]) if name in after else ["is gone"])
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="The golden table of results.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", nargs="*", metavar="PATTERN", help="rewrite the rows that differ")
    action.add_argument("--bits", nargs="+", metavar=("FILE", "PATTERN"), help="save rows with hashes")
    action.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="of two such files")
    asked = parser.parse_args()
    if asked.write is not None:
        print("\n".join([*(done := rewrite(asked.write)), f"{len(done)} of {len(CELLS)} rows changed"]))
    elif asked.bits:
        write(bits(asked.bits[1:]), Path(asked.bits[0]))
    else:
        print("\n".join(found := compare(*asked.compare)) or "the same bits")
        return 1 if found else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
