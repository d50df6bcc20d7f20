"""fedpace timeline FILE -o PICTURE"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedpace.cli import show
from fedpace.cli.parser import count

if TYPE_CHECKING:
    from fedpace.record.run.usage import Usage

HEADER = ("client", "busy", "link", "used", "wasted", "pending", "staleness", "max")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what `fedpace run --timeline FILE` wrote")
    parser.add_argument("-o", "--output", metavar="PICTURE", help="default: FILE with the ending .png")
    parser.add_argument(
        "--clients", type=count, default=40, metavar="N", help="how many to show (default: %(default)s)"
    )


def command(args: argparse.Namespace) -> int:
    """Draw who did what when, and add it up.

    One row per client: download, training, waiting to be asked, upload; training that nobody used is grey.
    The table says how busy each was, what became of its updates, and how stale those were that were used.
    """
    from fedpace.record.report import plot
    from fedpace.record.report.gantt import gantt
    from fedpace.record.run import timeline
    from fedpace.record.run.usage import ages_of_all, usage

    output = plot.require_picture(args.output or Path(args.file).with_suffix(".png"), "--output")
    rows = timeline.read(args.file)
    plot.save(gantt(rows, most_clients=args.clients), output)
    _show(usage(rows), args.clients, ages_of_all(usage(rows)))
    print(output)
    return 0


def _show(lines: Sequence[Usage], most: int, ages: Mapping[int, int]) -> None:
    table = [
        (
            str(line.client),
            f"{line.busy:.0%}",
            f"{line.sending:.0%}",
            *(f"{n:,}" for n in (line.used, line.wasted, line.pending)),
            f"{line.mean_age:.2f}",
            str(line.max_age),
        )
        for line in lines[:most]
    ]
    more = f"and {len(lines) - most:,} clients more\n" if len(lines) > most else ""
    found = ", ".join(f"{age}: {n:,}" for age, n in ages.items())
    show.table(
        HEADER, table, align="rrrrrrrr", caption=f"{more}updates used, by staleness: {found or 'none'}"
    )
