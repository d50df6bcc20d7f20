"""fedpace report RUN ... -o report.html"""

from __future__ import annotations

import argparse

from fedpace.cli.target import target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="names of runs or studies; see `fedpace runs`")
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="report.html", help="file to write (default: %(default)s)"
    )
    parser.add_argument(
        "--target",
        type=target,
        metavar="METRIC=VALUE",
        help="report the cost of reaching this value, e.g. accuracy=0.8",
    )
    parser.add_argument("--title", default="", metavar="TEXT", help="heading of the page")


def command(args: argparse.Namespace) -> int:
    """Write a report on saved runs as one web page.

    Results, curves, client timeline, staleness, participation, traffic, configuration and papers to cite, in one
    self-contained file. Runs that differ in their seed only are one group, with means and intervals.
    """
    from fedpace.disk import files
    from fedpace.study.saved import runs

    output = files.require_writable(args.output, "--output")
    study = runs().among(args.runs, target=args.target, title=args.title)
    study.report(output, args.title)
    print(output)
    return 0
