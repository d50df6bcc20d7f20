"""Shakespeare's plays: predict the next character; naturally split by speaking role."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedpace.errors import ConfigError
from fedpace.tasks.datasets.archive import Files
from fedpace.tasks.datasets.data import Array, Verify

NAMES = ("input.txt", "tinyshakespeare.txt", "shakespeare.txt")
LENGTH = 80  # characters a sample shows; the labels are the characters that follow each of them
ALPHABET = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
MIN_SAMPLES = 2  # samples a role must have: one to train on, one to test with


def speeches(text: str) -> dict[str, str]:
    """All that each role says, in the order of the text. Blocks are `NAME:`, the lines, a blank line."""
    said: dict[str, list[str]] = {}
    for block in text.split("\n\n"):
        name, _, lines = block.strip("\n").partition("\n")
        if name.endswith(":") and lines:
            said.setdefault(name[:-1], []).append(lines)
    return {role: "\n".join(parts) for role, parts in said.items()}


def windows(speech: str) -> Array:
    """Pieces of LENGTH + 1 characters that do not overlap, as positions in the alphabet."""
    if strange := set(speech) - set(ALPHABET):
        raise ConfigError(f"Shakespeare must be written in {len(ALPHABET)} characters; got {min(strange)!r}")
    codes = np.array([ALPHABET.index(character) for character in speech], np.uint8)
    whole = len(codes) // (LENGTH + 1)
    return codes[: whole * (LENGTH + 1)].reshape(whole, LENGTH + 1)


def decode(files: Files, name: str, verify: Verify) -> Mapping[str, Array] | None:
    """The samples in the text that `files` has; None if it has none."""
    known = [file for file in files if file in NAMES]
    alone = [file for file in files if files.single and file.endswith(".txt")]
    file = next(iter((*known, *alone)), None)
    if file is None:
        return None
    content = files[file]
    verify("input.txt", content)
    return samples(content.decode(errors="replace"))


def samples(text: str) -> dict[str, Array]:
    """Samples by role; the last fifth of what a role says, at least one sample, is for testing."""
    pieces = [windows(speech) for speech in speeches(text).values()]
    pieces = [piece for piece in pieces if len(piece) >= MIN_SAMPLES]
    if not pieces:
        raise ConfigError(
            f"Shakespeare must have roles that say {MIN_SAMPLES * (LENGTH + 1)} characters; got none"
        )
    tests = [max(1, len(piece) // 5) for piece in pieces]
    train = np.concatenate([piece[:-n] for piece, n in zip(pieces, tests, strict=True)])
    test = np.concatenate([piece[-n:] for piece, n in zip(pieces, tests, strict=True)])
    roles = np.arange(len(pieces))
    return {
        "x_train": train[:, :-1],
        "y_train": train[:, 1:],
        "x_test": test[:, :-1],
        "y_test": test[:, 1:],
        "groups_train": np.repeat(roles, [len(p) - n for p, n in zip(pieces, tests, strict=True)]),
        "groups_test": np.repeat(roles, tests),
    }
