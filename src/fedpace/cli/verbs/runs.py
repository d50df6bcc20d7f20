"""fedpace runs list | show | delete | export"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fedpace.cli import listing, show, stored_experiment
from fedpace.cli.experiment import add_modules
from fedpace.cli.experiment_file import SUFFIX
from fedpace.cli.parser import Parser, add_action
from fedpace.errors import ConfigError
from fedpace.untrusted import short_lists, visible

if TYPE_CHECKING:
    from fedpace.record.rows import Listed
    from fedpace.record.store.store import Entry, Store

HEADER = ("name", "algorithm", "settings", "task", "seed", "steps", "accuracy", "loss", "state", "started")
DROPPABLE = ("started", "loss", "task", "seed", "algorithm", "steps", "accuracy")  # where lines are short
MOST_SETTINGS = 32  # letters of a run's parameters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=Parser)
    add_action(verbs, "list", "List all runs, newest last (the default action).")
    one = add_action(verbs, "show", "Show one run: configuration, machine, result.")
    one.add_argument("name", metavar="NAME", help="a name from `fedpace runs list`")
    gone = add_action(verbs, "delete", "Delete runs and their files.")
    gone.add_argument("names", metavar="NAME", nargs="+", help="names from `fedpace runs list`")
    out = add_action(verbs, "export", "Export histories as one table, or a run as an experiment file.")
    out.add_argument("names", metavar="NAME", nargs="*", help="names from `fedpace runs list` (default: all)")
    out.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="output file: .csv or .parquet for histories, .toml for the experiment file of one run",
    )
    add_modules(out)


def command(args: argparse.Namespace) -> int:
    """List, show, delete and export saved runs.

    The run store is runs.sqlite in the folder FEDPACE_HOME (default: the user's data directory), or the database
    at the URL FEDPACE_STORE; models and checkpoints are in the folder `runs` of FEDPACE_HOME.
    """
    from fedpace.record.store.store import Store

    store = Store()
    match args.action:
        case "show":
            _show(store, store[args.name])
        case "delete":
            names = [each for name in args.names for each in store.names(name)]
            for each in dict.fromkeys(names):  # all are there before the first one goes
                store.delete(each)
        case "export":
            chosen = [store[each] for name in args.names for each in store.names(name)]
            if args.output.endswith(SUFFIX):
                return stored_experiment.export(chosen, args.output, args.modules)
            _export(store, chosen or store.entries(), Path(args.output))
        case _:
            _list(store)
    return 0


def _list(store: Store) -> None:
    lines = [_row(store, run) for run in store.listing()]
    if lines:
        listing.lines(HEADER, lines, align="llllrrrrll", droppable=DROPPABLE)
    else:
        print(f"no saved runs in {store.home}")


def _row(store: Store, run: Listed) -> tuple[str, ...]:
    return (
        run.name,
        run.algorithm,
        listing.shortened(short_lists(run.settings), MOST_SETTINGS),
        run.task,
        str(run.seed),
        f"{run.steps}/{run.rounds}",
        *(f"{run.metrics[name]:.4f}" if name in run.metrics else "" for name in ("accuracy", "loss")),
        store.state(run),
        f"{run.began:%Y-%m-%d %H:%M}",
    )


def _show(store: Store, entry: Entry) -> None:
    from fedpace.record import rows
    from fedpace.record.run.units import format_seconds
    from fedpace.record.store import artifacts

    facts = [("state", store.state(entry)), ("note", entry.note)]
    facts += [("started", f"{entry.began:%Y-%m-%d %H:%M:%S} UTC")]
    facts += rows.facts(entry).items()
    facts.append(("files", str(store.folder(entry.name))))
    facts.append(("real time", format_seconds(entry.summary.get("real_seconds", 0.0))))
    run = artifacts.load(store, entry)
    if len(run.client_metrics) > 1:
        steps = ", ".join(map(str, run.client_metrics))
        facts.append(("clients measured", f"after steps {steps}"))
    print(entry.name)
    width = max(len(name) for name, text in facts if text)
    for name, text in facts:
        if text:
            print(visible(f"  {name:<{width}} {short_lists(text)}"))
    if run.history:
        print()
        show.result(run)


def _export(store: Store, entries: list[Entry], output: Path) -> None:
    """One row per run and server step."""
    from dataclasses import asdict

    import pandas

    from fedpace.disk.files import require_writable
    from fedpace.record.run.table_file import write_table

    kinds = (".csv", ".parquet")
    if output.suffix not in kinds:
        raise ConfigError(f"--output must end in {', '.join(kinds)} or {SUFFIX}; got {str(output)!r}")
    require_writable(output, "--output")
    about = ("name", "algorithm", "task", "seed")
    lines = []
    for entry in entries:
        for record in map(asdict, store.history(entry.id)):
            learned = record.pop("metrics")
            lines.append({name: getattr(entry, name) for name in about} | learned | record)
    write_table(pandas.DataFrame(lines), output, parquet=output.suffix == ".parquet")
    print(output)
