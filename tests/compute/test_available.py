"""Memory that may still be taken: the system's, and that of the control groups around this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedpace.compute import available
from fedpace.compute.available import available_bytes

FREE_KB = 8_000


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system with 8 MB of free memory and no control groups."""
    monkeypatch.setattr(available, "PROC", tmp_path / "proc")
    monkeypatch.setattr(available, "GROUPS", tmp_path / "groups")
    write(tmp_path / "proc/meminfo", f"MemTotal: 16000 kB\nMemAvailable: {FREE_KB} kB\n")
    return tmp_path


def write(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def group(folder: Path, limit: object, used: int, files: int) -> None:
    """A control group of version 2; `files`: of what it uses, the system's copies of files."""
    write(folder / "memory.max", limit)
    write(folder / "memory.current", used)
    write(folder / "memory.stat", f"anon 1\nactive_file {files}\ninactive_file 0")


def test_without_control_groups_it_is_the_systems(system: Path) -> None:
    assert available_bytes() == 1024 * FREE_KB
    (system / "proc/meminfo").unlink()
    assert available_bytes() is None


def test_a_container_has_what_its_limit_leaves(system: Path) -> None:
    """Copies of files do not count: the system drops them when it needs their memory."""
    write(system / "proc/self/cgroup", "0::/")
    group(system / "groups", 1_000_000, used=700_000, files=200_000)
    assert available_bytes() == 500_000
    group(system / "groups", "max", used=700_000, files=0)
    assert available_bytes() == 1024 * FREE_KB
    group(system / "groups", 1_000_000, used=1_100_000, files=0)
    assert available_bytes() == 0


def test_the_narrowest_of_nested_groups_decides(system: Path) -> None:
    write(system / "proc/self/cgroup", "0::/user.slice/night.scope")
    group(system / "groups/user.slice", 600_000, used=100_000, files=0)
    group(system / "groups/user.slice/night.scope", 900_000, used=100_000, files=0)
    assert available_bytes() == 500_000


def test_version_1(system: Path) -> None:
    """The path is that outside of a container, whose own group is at the top inside."""
    write(system / "proc/self/cgroup", "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n0::/")
    top = system / "groups/memory"
    write(top / "memory.limit_in_bytes", 2_000_000)
    write(top / "memory.usage_in_bytes", 700_000)
    write(top / "memory.stat", "total_active_file 100000\ntotal_inactive_file 200000")
    assert available_bytes() == 1_600_000


def test_files_that_say_something_else_are_passed_over(system: Path) -> None:
    write(system / "proc/self/cgroup", "nonsense")
    assert available_bytes() == 1024 * FREE_KB
    write(system / "proc/self/cgroup", "0::/")
    write(system / "groups/memory.max", "many")
    assert available_bytes() == 1024 * FREE_KB
