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
    parser.add_argument("file", metavar="FILE", help="a file written by `fedpace run --timeline FILE`")
    parser.add_argument(
        "-o", "--output", metavar="PICTURE", help="picture to write (default: FILE with the suffix .png)"
    )
    parser.add_argument(
        "--clients", type=count, default=40, metavar="N", help="clients to show (default: %(default)s)"
    )


def command(args: argparse.Namespace) -> int:
    """Draw a client timeline and summarise it per client.

    One row per client: download, training, waiting for a poll, upload; unused training is grey. The table has each
    client's busy time, its updates used, wasted and pending, and their staleness.
    """
    from fedpace.record.report import plot
    from fedpace.record.report.gantt import gantt
    from fedpace.record.run import timeline
    from fedpace.record.run.usage import staleness_of_all, usage

    output = plot.require_picture(args.output or Path(args.file).with_suffix(".png"), "--output")
    rows = timeline.read(args.file)
    plot.save(gantt(rows, most_clients=args.clients), output)
    _show(usage(rows), args.clients, staleness_of_all(usage(rows)))
    print(output)
    return 0


def _show(lines: Sequence[Usage], most: int, staleness: Mapping[int, int]) -> None:
    table = [
        (
            str(line.client),
            f"{line.busy:.0%}",
            f"{line.sending:.0%}",
            *(f"{n:,}" for n in (line.used, line.wasted, line.pending)),
            f"{line.mean_staleness:.2f}",
            str(line.max_staleness),
        )
        for line in lines[:most]
    ]
    more = f"and {len(lines) - most:,} more clients\n" if len(lines) > most else ""
    found = ", ".join(f"{tau}: {n:,}" for tau, n in staleness.items())
    show.table(
        HEADER, table, align="rrrrrrrr", caption=f"{more}updates used, by staleness: {found or 'none'}"
    )
