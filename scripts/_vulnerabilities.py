"""What pip-audit found, from its JSON on standard input; it says "none" too when it could look up nothing at all."""

from __future__ import annotations

import json
import sys

UNREACHED = "vulnerabilities: not checked, the database of pip-audit could not be reached"


def summary(text: str) -> tuple[list[str], int]:
    """Lines to print, and an exit code: 1 if there is something to repair."""
    try:
        packages = json.loads(text)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return [UNREACHED], 0
    checked = [package for package in packages if "vulns" in package]
    if not checked:
        return [UNREACHED], 0
    found = [
        f"{package['name']} {package['version']}: {flaw['id']}, repaired in {', '.join(flaw['fix_versions']) or 'none'}"
        for package in checked
        for flaw in package["vulns"]
    ]
    share = f"{len(checked)} of {len(packages)} packages checked"
    skipped = [package["name"] for package in packages if "vulns" not in package]
    unknown = f"; not in the database: {', '.join(skipped)}" if skipped else ""
    return [f"vulnerabilities: {len(found) or 'none'} known, {share}{unknown}", *found], 1 if found else 0


if __name__ == "__main__":
    lines, code = summary(sys.stdin.read())
    print("\n".join(lines))
    sys.exit(code)
