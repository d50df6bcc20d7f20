"""A checkpoint: one safetensors file that is whole, or is not used.

    tensors     "tree"  the tree's JSON, as bytes;  "0", "1", ...  its arrays
    metadata    "format"  the version of this layout;  "head"  JSON: which experiment, how far;  "sha256"  of it all

The last two are kept. A new one is written under another name, flushed to the disk and renamed, so that at every
moment, power cuts included, the file under the known name is one that was once finished.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedpace.disk import files
from fedpace.errors import CheckpointError
from fedpace.record.run.model_file import digest, metadata
from fedpace.record.store.tree import Tree
from fedpace.untrusted import fits, read_regular

FORMAT = 2  # 1: frames of version 1
CURRENT = "checkpoint.safetensors"
PREVIOUS = "checkpoint.previous.safetensors"
NEXT = "checkpoint.next.safetensors"

Head = dict[str, Any]


def encode(tree: Tree, head: Mapping[str, object]) -> bytes:
    """The file's content."""
    from safetensors.numpy import save

    text = json.dumps({"root": tree.root, "layouts": tree.layouts}, allow_nan=False, separators=(",", ":"))
    arrays = {str(place): array for place, array in enumerate(tree.arrays)}
    arrays["tree"] = np.frombuffer(text.encode(), np.uint8)
    about = json.dumps(head)
    return save(arrays, {"format": str(FORMAT), "head": about, "sha256": digest(about, arrays)})


def decode(data: bytes) -> tuple[Head, Tree]:
    """What `encode` was given; CheckpointError says what is wrong with anything else."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        about = metadata(data)
        _require_format(int(about["format"]))
        arrays = load(data)
        if digest(about["head"], arrays) != about["sha256"]:
            raise CheckpointError("it is damaged: its checksum does not match")
        text = json.loads(arrays.pop("tree").tobytes())
        places = [arrays[str(place)] for place in range(len(arrays))]
        head = json.loads(about["head"])
        if not fits(text, {"root": object, "layouts": [[str]]}) or not isinstance(head, dict):
            raise CheckpointError("it is damaged: its tree or its head is of another kind")
        return head, Tree(text["root"], places, text["layouts"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, SafetensorError):
        raise CheckpointError("it is damaged or incomplete") from None


def write(folder: Path, data: bytes) -> None:
    """Make `data` the current checkpoint, and the current one the previous; a full disk changes neither."""
    current, fresh = folder / CURRENT, folder / NEXT
    files.write(fresh, data, through=False)
    if current.exists():
        _copy(current, folder / PREVIOUS)
    os.replace(fresh, current)
    files.sync_folder(folder)


def read(path: Path) -> tuple[Head, Tree]:
    """A checkpoint from its file."""
    try:
        return decode(read_regular(path))
    except FileNotFoundError:
        raise CheckpointError("it is missing") from None
    except OSError as error:
        raise CheckpointError(f"it cannot be read ({error.strerror})") from None


def exists(folder: Path) -> bool:
    """Whether a run has got as far as its first checkpoint."""
    return (folder / CURRENT).exists() or (folder / PREVIOUS).exists()


def step_back(folder: Path) -> None:
    """Make the previous checkpoint the current one, for a run that goes on from it."""
    _copy(folder / PREVIOUS, folder / CURRENT)


def remove(folder: Path) -> None:
    for name in (CURRENT, PREVIOUS, NEXT):
        (folder / name).unlink(missing_ok=True)


def _require_format(found: int) -> None:
    if found == FORMAT:
        return
    newer = f"a newer fedpace (format {found}"
    older = f"an older fedpace (format {found}, frame version 1"
    raise CheckpointError(f"it was written by {newer if found > FORMAT else older}; this one reads {FORMAT})")


def _copy(source: Path, target: Path) -> None:
    """A second name for the same content; both names hold whole files at every moment."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    try:
        os.link(source, temporary)
    except OSError:  # a file system without links
        shutil.copyfile(source, temporary)
    os.replace(temporary, target)
