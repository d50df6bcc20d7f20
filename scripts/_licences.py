"""A table of the licences of everything that is installed beside fedpace, from the packages' own metadata."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageMetadata, distributions

LONGEST = 60  # some packages put the whole text of a licence where its name belongs
OWN = "fedpace"


def licence(about: PackageMetadata) -> str:
    """The SPDX expression, else the short name, else the classifiers; `unknown` if a package says nothing."""
    if expression := about.get("License-Expression"):
        return expression
    named = (about.get("License") or "").strip()
    if named and len(named) <= LONGEST and "\n" not in named and named.upper() != "UNKNOWN":
        return named
    marks = [mark for mark in about.get_all("Classifier") or () if mark.startswith("License ::")]
    said = dict.fromkeys(mark.rpartition(":: ")[2] for mark in marks)
    return ", ".join(said) or (named.splitlines()[0][:LONGEST] if named else "unknown")


def rows(installed: Iterable[Distribution]) -> list[tuple[str, str, str]]:
    """(package, version, licence), in the order of the alphabet."""
    found = {dist.metadata["Name"]: (dist.version, licence(dist.metadata)) for dist in installed}
    return sorted(
        ((name, *rest) for name, rest in found.items() if name != OWN), key=lambda row: row[0].lower()
    )


def table(found: list[tuple[str, str, str]]) -> str:
    """Columns as wide as they need to be."""
    lines = [("package", "version", "licence"), *found]
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    return "\n".join(f"{name:<{widths[0]}}  {version:<{widths[1]}}  {said}" for name, version, said in lines)


def main() -> int:
    found = rows(distributions())
    print(table(found))
    silent = [name for name, _, said in found if said == "unknown"]
    print(f"\n{len(found)} packages" + (f"; no licence is given by {', '.join(silent)}" if silent else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
