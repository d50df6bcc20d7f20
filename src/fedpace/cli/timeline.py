"""fedpace timeline FILE -o PICTURE"""

from __future__ import annotations

import argparse
from pathlib import Path

from fedpace.cli.parser import count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what `fedpace run --timeline FILE` wrote")
    parser.add_argument("-o", "--output", metavar="PICTURE", help="default: FILE with the ending .png")
    parser.add_argument(
        "--clients", type=count, default=40, metavar="N", help="how many to draw (default: %(default)s)"
    )


def command(args: argparse.Namespace) -> int:
    """Draw who did what when.

    One row per client: download, training, waiting to be asked, upload; training that nobody used is grey.
    """
    from fedpace.record import plot, timeline
    from fedpace.record.gantt import gantt

    output = plot.require_picture(args.output or Path(args.file).with_suffix(".png"), "--output")
    plot.save(gantt(timeline.read(args.file), most_clients=args.clients), output)
    print(output)
    return 0
