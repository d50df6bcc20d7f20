"""What `--json` wrote, without the name under which the run was saved."""

from pathlib import Path


def unnamed(path: Path) -> bytes:
    return b"\n".join(line for line in path.read_bytes().splitlines() if not line.startswith(b' "run":'))
