"""The GPUs of a machine, and the processes among which they are divided."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class GpuPlace:
    """This process among those that use the same GPUs."""

    number: int = 0  # its turn, where several GPUs serve several processes
    processes: int = 1  # that share them, this one and its own children as one
    children: int = 0
    assigned: bool = False  # whether it sees only the GPU that Ray gave it


here = GpuPlace()


def divide(children: int) -> int:
    """Before this process starts so many on its GPUs: how many will share them, this one included."""
    global here
    here = replace(here, children=children)
    return here.processes * (1 + children)


def processes_on(name: str) -> int:
    """Processes that share the device of this name."""
    import torch

    everyone = here.processes * (1 + here.children)
    several = name == "cuda" and not here.assigned and torch.cuda.is_available()
    return -(-everyone // torch.cuda.device_count()) if several else everyone


def use_in_turn(number: int, processes: int) -> None:
    """In process `number`: several GPUs serve the processes in turn; `cuda` without a number is then this one."""
    global here
    here = GpuPlace(number, processes)
    import torch

    if torch.cuda.is_available():
        torch.cuda.set_device(number % torch.cuda.device_count())


def use_assigned(processes: int) -> None:
    """In a process of Ray, which sees the GPU that it was given and no other: every number means that one."""
    global here
    here = GpuPlace(processes=processes, assigned=True)


def name_here(name: str) -> str:
    """What this process calls a device that has this name elsewhere."""
    return "cuda" if here.assigned and name.startswith("cuda:") else name
