"""The GPUs of a machine, and the processes among which they are divided."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """This process among those that use the same GPUs."""

    number: int = 0  # its turn, where several GPUs serve several processes
    assigned: bool = False  # whether it sees only the GPU that Ray gave it


here = Place()


def use_in_turn(number: int) -> None:
    """In process `number`: several GPUs serve the processes in turn; `cuda` without a number is then this one."""
    global here
    here = Place(number)
    import torch

    if torch.cuda.is_available():
        torch.cuda.set_device(number % torch.cuda.device_count())


def use_assigned() -> None:
    """In a process of Ray, which sees the GPU that it was given and no other: every number means that one."""
    global here
    here = Place(assigned=True)


def name_here(name: str) -> str:
    """What this process calls a device that has this name elsewhere."""
    return "cuda" if here.assigned and name.startswith("cuda:") else name
