"""What a client's program was found to be, kept in the client's folder: most letters then need neither it nor torch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedpace.deploy.owner import Owner
from fedpace.deploy.projects.program import Program
from fedpace.disk import files
from fedpace.errors import CheckpointError
from fedpace.record.store import checkpoint
from fedpace.record.store.tree import Tree
from fedpace.untrusted import Number, Whole, fits
from fedpace.vector import Layout, Vector, freeze

NAME = "program.safetensors"
_FACTS = {
    "run": str,
    "program": str,
    "seed": Whole,
    "samples": Number,
    "data": Whole,
    "decides": bool,  # it has rules, accept or steps of its own
    "names": [str],
    "shapes": [[Whole]],
    "batch_norm": [str],
}


class KnownProgram:
    """A client.py and its data, imported once something must be computed.

    What is in the folder counts for one Flower run, and for this very text of client.py.
    """

    def __init__(self, path: Path, client: int, folder: Path, run: str) -> None:
        self.name, self.path, self.client, self.folder = path.name, path, client, folder
        self._of = {"run": run, "program": hashlib.sha256(path.read_bytes()).hexdigest()}
        self._facts: dict[str, Any] | None = None
        self._initial: Vector | None = None
        self._read()

    # ------------------------------------------------------------ what is computed with

    @cached_property
    def program(self) -> Program:
        return Program(self.path)

    @cached_property
    def _made(self) -> tuple[Any, int]:
        return self.program.local_task(self.client)

    def task(self) -> Any:
        return self._made[0]

    # ------------------------------------------------------------ what is known

    def samples(self, data: int) -> float:
        if self._facts is not None:
            return float(self._facts["samples"])
        return float(self.task().samples(data))

    @property
    def data(self) -> int:
        return self._made[1] if self._facts is None else int(self._facts["data"])

    @property
    def layout(self) -> Layout:
        if self._facts is None:
            layout: Layout = self.task().layout
            return layout
        return Layout(tuple(self._facts["names"]), tuple(tuple(shape) for shape in self._facts["shapes"]))

    @property
    def batch_norm(self) -> Sequence[str]:
        """Parameters of such layers, which an algorithm may leave on the client."""
        return getattr(self.task(), "batch_norm", ()) if self._facts is None else self._facts["batch_norm"]

    def owner(self) -> Owner:
        decides = self._facts is None or self._facts["decides"]
        return self.program.owner() if decides else Owner()

    def initial(self, seed: int) -> Vector:
        """The model before training, made once."""
        if self._initial is None or self._facts is None or self._facts["seed"] != seed:
            self._initial = freeze(np.array(self.task().initial(seed)))
            self._write(seed, self._initial)
        return self._initial

    # ------------------------------------------------------------ its file

    def _read(self) -> None:
        try:
            head, tree = checkpoint.read(self.folder / NAME)
        except (CheckpointError, OSError):
            return
        mine = fits(head, _FACTS) and all(head[name] == value for name, value in self._of.items())
        if mine and len(tree.arrays) == 1:
            self._facts, self._initial = dict(head), freeze(tree.arrays[0])

    def _write(self, seed: int, initial: Vector) -> None:
        layout = self.layout
        facts = {
            **self._of,
            "seed": seed,
            "samples": self.samples(self.data),
            "data": self.data,
            "decides": self.program.decides,
            "names": list(layout.names),
            "shapes": [list(shape) for shape in layout.shapes],
            "batch_norm": list(self.batch_norm),
        }
        files.write(self.folder / NAME, checkpoint.encode(Tree({"a": 0}, [np.array(initial)]), facts))
        self._facts = facts
