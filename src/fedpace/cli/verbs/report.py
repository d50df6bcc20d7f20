"""fedpace report RUN ... -o report.html"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from fedpace.cli import book
from fedpace.errors import StorageError
from fedpace.untrusted import brief

if TYPE_CHECKING:
    from fedpace.record.report.page import StoredRun
    from fedpace.record.store.store import Entry, Store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="names from `fedpace runs list`")
    parser.add_argument("-o", "--output", metavar="FILE", default="report.html", help="default: %(default)s")
    parser.add_argument("--title", default="", metavar="TEXT", help="heading of the page")


def command(args: argparse.Namespace) -> int:
    """Write one web page about saved runs.

    Results, curves, client timeline, staleness, participation, traffic, configuration and papers to cite, in one
    self-contained file.
    """
    from fedpace.disk import files
    from fedpace.record.report.page import page
    from fedpace.record.store.store import Store

    output = files.require_writable(args.output, "--output")
    store = Store()
    stored = [_stored(store, store[name]) for name in args.runs]
    files.write(output, page(stored, args.title).encode())
    print(output)
    return 0


def _clients(entry: Entry) -> int:
    text = entry.experiment.get("clients", "")
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise StorageError(f"the run store has a damaged run, {entry.name!r}: its clients are {brief(text)}")
    return int(text)


def _stored(store: Store, entry: Entry) -> StoredRun:
    from fedpace.bibliography import PAPERS
    from fedpace.record.report.page import StoredRun
    from fedpace.record.store import artifacts

    return StoredRun(
        label=entry.name,
        run=artifacts.load(store, entry),
        clients=_clients(entry),
        state=book.state(store, entry),
        facts=book.facts(entry) | {"note": entry.note},
        papers=[PAPERS[key] for key in entry.about.get("papers", ()) if key in PAPERS],
    )
