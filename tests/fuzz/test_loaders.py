"""No file, however made, does anything to a loader but raise an error of ours, on one line, or load."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedpace.errors import FedpaceError
from fedpace.tasks.datasets import bounded
from fuzz.loaders import LIMIT_BYTES, loaders

FILES = Path(__file__).parent / "files"
CHANGES = 40  # of each input
TOKENS = (
    b"",
    b"\0",
    b"\xff" * 8,
    b"-1",
    b"1e400",
    b"NaN",
    b"null",
    b"[",
    b'{"a": ',
    b"9" * 30,
    b"\n",
    b",",
    b"\x1b[2J",
)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    monkeypatch.setattr(bounded, "LIMIT_BYTES", LIMIT_BYTES)
    monkeypatch.setattr(bounded, "LIMIT_ARCHIVE_BYTES", LIMIT_BYTES)


def inputs(name: str) -> list[bytes]:
    """Good ones, and what fuzzing has found."""
    kept = sorted((FILES / name).iterdir()) if (FILES / name).exists() else []
    return [*loaders()[name].seeds(), *(path.read_bytes() for path in kept)]


def changed(content: bytes, rng: random.Random) -> bytes:
    """Bits flipped, bytes and tokens put in, parts doubled, cut out or moved."""
    out = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at, end = sorted((rng.randint(0, len(out)), rng.randint(0, len(out))))
        match rng.randrange(6):
            case 0 if out:
                out[at % len(out)] ^= 1 << rng.randrange(8)
            case 1 if out:
                out[at % len(out)] = rng.randrange(256)
            case 2:
                out[at:at] = rng.choice(TOKENS)
            case 3:
                out[at : min(end, at + 8)] = rng.choice(TOKENS)
            case 4:
                del out[at : min(end, at + 40)]
            case _:
                out[at:at] = out[end : end + 20]
    return bytes(out)


def mutations(name: str) -> Iterator[bytes]:
    for number, content in enumerate(inputs(name)):
        rng = random.Random(f"{name} {number}")
        yield from (content[: len(content) * part // 8] for part in range(8))
        yield from (changed(content, rng) for _ in range(CHANGES))


def loads(name: str, content: bytes) -> bool:
    """Whether it is accepted; FedpaceError on one line if not, and nothing else ever."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            loaders()[name].load(content)
        except FedpaceError as error:
            assert "\n" not in str(error) and len(str(error)) < 2000
            return False
    return True


@pytest.mark.parametrize("name", loaders())
def test_good_files_are_loaded(name: str) -> None:
    assert any(loads(name, content) for content in loaders()[name].seeds())


@pytest.mark.parametrize("name", loaders())
def test_files_that_fuzzing_found(name: str) -> None:
    found = inputs(name)[len(list(loaders()[name].seeds())) :]
    assert found, f"no corpus for {name}"
    for content in found:
        loads(name, content)


@pytest.mark.parametrize("name", loaders())
def test_files_with_a_few_changes(name: str) -> None:
    accepted = [loads(name, content) for content in mutations(name)]
    assert not all(accepted)
