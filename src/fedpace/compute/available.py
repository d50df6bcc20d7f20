"""Memory that this process may still take: the system's, and that of the control groups it is in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


class GroupFiles(NamedTuple):
    """Where a version of control groups says what."""

    limit: str
    used: str
    files: tuple[str, str]  # in memory.stat: copies of files, dropped when their memory is needed


VERSION_1 = GroupFiles(
    "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")
)
VERSION_2 = GroupFiles("memory.max", "memory.current", ("active_file", "inactive_file"))


def available_bytes() -> int | None:
    """The least that the system and the control groups leave; None where nobody says."""
    return min([*_system(), *_groups()], default=None)


def _system() -> Iterator[int]:
    found = _table(PROC / "meminfo").get("MemAvailable:")
    if found is not None:
        yield 1024 * found


def _groups() -> Iterator[int]:
    """What is left in the group of this process and in those around it, as far as they can be seen from here."""
    for line in _lines(PROC / "self/cgroup"):
        _, kinds, path = [*line.split(":", 2), "", ""][:3]
        if "memory" in kinds.split(","):
            yield from _around(GROUPS / "memory", path, VERSION_1)
        elif not kinds:
            yield from _around(GROUPS, path, VERSION_2)


def _around(top: Path, path: str, names: GroupFiles) -> Iterator[int]:
    inner = top / path.lstrip("/")
    for folder in (inner, *inner.parents):
        if folder.is_relative_to(top):
            yield from _left(folder, names)


def _left(folder: Path, names: GroupFiles) -> Iterator[int]:
    limit, used = _number(folder / names.limit), _number(folder / names.used)
    if limit is not None and used is not None:
        known = _table(folder / "memory.stat")
        yield max(0, limit - used + sum(known.get(name, 0) for name in names.files))


def _number(file: Path) -> int | None:
    """None: there is none, such as of a limit that is not set."""
    text = next(iter(_lines(file)), "")
    return int(text) if text.isdecimal() else None


def _table(file: Path) -> dict[str, int]:
    """Lines of a name and a number."""
    words = (line.split() for line in _lines(file))
    return {word[0]: int(word[1]) for word in words if len(word) > 1 and word[1].isdecimal()}


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
