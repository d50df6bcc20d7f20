"""The beginning of a run, as its folder keeps it: terms, initial model and layout. A replay needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fedpace.deploy.coordinator import Coordinator
from fedpace.deploy.expectations import Patience
from fedpace.deploy.journal.files import FileLayer, write_whole
from fedpace.deploy.plan import RunPlan
from fedpace.deploy.terms import Terms
from fedpace.errors import CheckpointError, ConfigError, StorageError
from fedpace.privacy.noise import KEY_BYTES, KeyedNoise
from fedpace.record.store import checkpoint
from fedpace.record.store.tree import Tree
from fedpace.untrusted import Number, Whole, fits
from fedpace.vector import Layout, Vector, freeze

NAME = "genesis.safetensors"
_HEAD = {
    "run": str,
    "task": str,
    "plan": str,
    "clients": Whole,
    "rounds": Whole,
    "seed": Whole,
    "samples": ([Number], None),
    "wait_for": Whole,
    "in_order": bool,
    "patience": {str: Number},
    "normalisers": {str: Whole},
    "names": [str],
    "shapes": [[Whole]],
}


@dataclass(frozen=True, slots=True)
class Genesis:
    run: bytes
    task: str  # its name
    terms: Terms
    initial: Vector
    layout: Layout
    noise: bytes = field(
        default=b"", repr=False
    )  # the key of a private run's noise: whoever has it can remove it

    def coordinator(self) -> Coordinator:
        """A new one, which has seen nothing yet."""
        private = self.terms.plan.algorithm.privacy is not None
        noise = KeyedNoise(self.noise) if private else None
        return Coordinator(self.terms, self.initial, self.layout, self.run, noise)

    def write(self, files: FileLayer) -> None:
        terms = self.terms
        head = {
            "run": self.run.hex(),
            "task": self.task,
            "plan": terms.plan.text,
            "clients": terms.clients,
            "rounds": terms.rounds,
            "seed": terms.seed,
            "samples": None if terms.samples is None else list(terms.samples),
            "wait_for": terms.wait_for,
            "in_order": terms.in_order,
            "patience": asdict(terms.patience),
            "normalisers": dict(terms.normalisers),
            "names": list(self.layout.names),
            "shapes": [list(shape) for shape in self.layout.shapes],
            **({"noise": self.noise.hex()} if self.noise else {}),
        }
        tree = Tree({"a": 0}, [np.array(self.initial)])
        write_whole(files, NAME, checkpoint.encode(tree, head))


def new_run(task: str, terms: Terms, initial: Vector, layout: Layout) -> Genesis:
    """Of a private run: with a key of the operating system's, safe on the disk before the first model leaves."""
    key = b"" if terms.plan.algorithm.privacy is None else os.urandom(KEY_BYTES)
    return Genesis(os.urandom(16), task, terms, freeze(initial.copy()), layout, key)


def read(files: FileLayer, rules: Mapping[str, Callable[..., Any]] | None = None) -> Genesis | None:
    """The beginning of the run in this folder; None if there is none. `rules` of one's own may occur in its plan."""
    if NAME not in files.names():
        return None
    try:
        head, tree = checkpoint.decode(files.read(NAME))
        if not fits(head, _HEAD) or len(tree.arrays) != 1 or tree.arrays[0].ndim != 1:
            raise CheckpointError("it is of another kind")
        terms = Terms(
            plan=RunPlan.read(head["plan"], rules),
            clients=head["clients"],
            rounds=head["rounds"],
            seed=head["seed"],
            samples=None if head["samples"] is None else tuple(map(float, head["samples"])),
            wait_for=head["wait_for"],
            in_order=head["in_order"],
            patience=Patience(**head["patience"]),
            normalisers=head["normalisers"],
        )
        layout = Layout(tuple(head["names"]), tuple(tuple(shape) for shape in head["shapes"]))
        run, key = bytes.fromhex(head["run"]), bytes.fromhex(head.get("noise", ""))
        return Genesis(run, head["task"], terms, freeze(tree.arrays[0]), layout, key)
    except (CheckpointError, TypeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise StorageError(f"{NAME} cannot be read: {error}") from None


def require_same(found: Genesis, asked: Genesis) -> None:
    """ConfigError names what differs between the run in the folder and the one that is asked for."""
    for name in ("plan", "clients", "rounds", "seed", "samples", "wait_for", "in_order", "normalisers"):
        one, other = getattr(found.terms, name), getattr(asked.terms, name)
        if name == "plan":
            one, other = one.text, other.text
        if one != other:
            raise ConfigError(
                f"the folder's run has {name} {one!r}; this one has {other!r}: take another folder, or the same {name}"
            )
    if found.initial.tobytes() != asked.initial.tobytes() or found.layout != asked.layout:
        raise ConfigError("the folder's run began from another model; take another folder, or the same model")
