"""fedpace data list | get | import | check | show"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fedpace.cli import show
from fedpace.cli.parser import DefaultCount, add_action, count, seed
from fedpace.disk.home import data_cache
from fedpace.errors import ConfigError

if TYPE_CHECKING:
    from fedpace.tasks.datasets.data import Data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_action(actions, "list", "List the data sets, and which are downloaded.")
    get = add_action(actions, "get", "Download a data set into the cache.")
    get.add_argument("name", metavar="NAME", help="name of a data set; see `fedpace data list`")
    take = add_action(actions, "import", "Import a data set from a file or folder into the cache.")
    take.add_argument("name", metavar="NAME", help="name of a data set; see `fedpace data list`")
    take.add_argument(
        "path",
        metavar="PATH",
        type=Path,
        help="file or folder: idx, idx.gz, npz, CIFAR batches or PNG strips",
    )
    check = add_action(actions, "check", "Verify the cache against its checksums.")
    check.add_argument(
        "names", metavar="NAME", nargs="*", help="data sets to verify (default: all in the cache)"
    )
    _add_show(add_action(actions, "show", "Show how samples and classes are partitioned over clients."))


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of a data set; see `fedpace data list`")
    parser.add_argument(
        "--clients",
        type=count,
        default=DefaultCount(100),
        metavar="N",
        help="number of clients (default: %(default)s)",
    )
    parser.add_argument(
        "--partition",
        metavar="RULE",
        help="how samples are partitioned over clients (default: the data set's own)",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="random seed (default: %(default)s)"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="also draw a picture (.png, .svg, .pdf)"
    )


def command(args: argparse.Namespace) -> int:
    """Download, import, verify and inspect data sets.

    Data sets are decoded once into memory-mapped arrays in the folder FEDPACE_DATA (default: in the user's cache
    directory) and verified against the checksums of the published files.
    """
    ACTIONS[args.action](args)
    return 0


def _list(args: argparse.Namespace) -> None:
    from fedpace.tasks import TASKS
    from fedpace.tasks.datasets import store
    from fedpace.tasks.datasets.catalogue import SOURCES

    rows = []
    for name, line in TASKS.items():
        made = name not in SOURCES
        rows.append((name, "built in" if made else ("downloaded" if store.stored(name) else "-"), line))
    show.table(("data set", "available", "description"), rows, align="llt", caption=f"cache: {data_cache()}")


def _get(args: argparse.Namespace) -> None:
    _require_file(args.name)
    from fedpace.tasks.datasets.fetch import get

    _describe(get(args.name, say=print))


def _import(args: argparse.Namespace) -> None:
    _require_file(args.name)
    from fedpace.tasks.datasets.find import import_data

    _describe(import_data(args.name, args.path))


def _check(args: argparse.Namespace) -> None:
    from fedpace.tasks.datasets import store
    from fedpace.tasks.datasets.catalogue import SOURCES
    from fedpace.tasks.datasets.find import source

    names = [source(name).name for name in args.names] or [name for name in SOURCES if store.stored(name)]
    for name in names:
        if not store.stored(name):
            raise ConfigError(f"{name} is not downloaded (cache: {data_cache()})")
        store.check(name)
        print(f"{name}: as published")
    if not names:
        print(f"the cache is empty: {data_cache()}")


def _show(args: argparse.Namespace) -> None:
    from fedpace.disk.files import require_writable
    from fedpace.random import stream
    from fedpace.record.report.plot import save
    from fedpace.tasks.named import default_partition, read
    from fedpace.tasks.partition import partition
    from fedpace.tasks.picture import split_picture

    rule = partition(args.partition or default_partition(args.name))
    if args.output is not None:
        require_writable(args.output, "--output")
    data = read(args.name, args.clients, args.seed)
    if isinstance(args.clients, DefaultCount):
        args.clients = getattr(rule, "clients", 0) or data.own_clients or args.clients
    parts = rule.split(data.labels(), data.groups_train, args.clients, stream(args.seed, "partition"))
    counts = data.counts(parts)
    held = (counts > 0).sum(axis=0)
    rows = [
        ("samples", *_min_median_max(sorted(len(part) for part in parts))),
        ("classes", *_min_median_max(sorted(held.tolist()))),
    ]
    show.table((f"{data.name}, {rule}", "min", "median", "max"), rows, align="lrrr")
    if args.output is not None:
        save(split_picture(counts, f"{data.name}, {args.clients} clients, {rule}"), args.output)
        print(f"picture: {args.output}")


def _min_median_max(ordered: list[int]) -> tuple[str, str, str]:
    return f"{ordered[0]:,}", f"{ordered[len(ordered) // 2]:,}", f"{ordered[-1]:,}"


def _require_file(name: str) -> None:
    from fedpace.tasks import TASKS
    from fedpace.tasks.datasets.catalogue import SOURCES

    if name in TASKS and name not in SOURCES:
        raise ConfigError(f"{name} is built in; it needs no download or import")


def _describe(data: Data) -> None:
    train, test = len(data.y_train), len(data.y_test)
    print(f"{data.name}: {train:,} training and {test:,} test samples, {data.classes} classes, as published")


ACTIONS = {"list": _list, "get": _get, "import": _import, "check": _check, "show": _show}
