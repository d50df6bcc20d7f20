"""The options of `fedpace advise` about local work and the server that take a value, and what reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedpace.cli.parser import count, number, share

MOST_STEPS = 1_000_000  # of a session: bounds sum over every one of them
MOST_EPOCHS = 1_000

Option = tuple[str, Callable[[str], Any], str, str]  # name, what reads its value, metavar, help


def numbers(text: str) -> list[float]:
    """`0.5,0.3`, as argparse's `type`."""
    return [number(word) for word in text.split(",")]


def counts(text: str) -> list[int]:
    """`2,5,9`, as argparse's `type`."""
    return [count(word.strip(), high=MOST_STEPS) for word in text.split(",")]


def delay(text: str) -> int:
    """A number of server steps, as argparse's `type`."""
    return count(text, low=0)


def epochs(text: str) -> tuple[int, int]:
    """`2` or `1..6`, as argparse's `type`."""
    low, dots, high = text.partition("..")
    return count(low, high=MOST_EPOCHS), count(high if dots else low, high=MOST_EPOCHS)


WORK: tuple[Option, ...] = (
    ("steps", counts, "K,K,...", "local steps of every client"),
    ("epochs", epochs, "E", "local epochs of every client: 2, or 1..6 if random"),
    ("samples", numbers, "N,N,...", "samples of every client"),
    ("clients-per-round", count, "M", "cohort size (default: all clients)"),
    ("client-lr", number, "LR", "learning rate of local steps (default: 0.1)"),
    ("batch-size", count, "B", "samples per local step (default: 10)"),
    ("momentum", number, "RHO", "local momentum"),
    ("prox-mu", number, "MU", "proximal term of local training (FedProx)"),
)

SERVER: tuple[Option, ...] = (
    ("server-lr", numbers, "LR,LR,...", "server learning rate of every stage, decreasing"),
    ("beta", number, "B", "server momentum of the first stage (default: 0.9)"),
    ("nu", share, "NU", "weight of momentum in the first stage (default: 0.9)"),
    ("delay", delay, "S", "largest staleness of autonomous clients, uniform on 0..S"),
)
