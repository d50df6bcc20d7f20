"""fedpace run ALGORITHM | FILE.toml"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fedpace.cli import arguments, execution, experiment_file, monitoring, output

if TYPE_CHECKING:
    from fedpace.record import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_run_arguments(parser)


def command(args: argparse.Namespace) -> int:
    """Simulate one algorithm and show the result.

    Every client trains at its own pace under a virtual clock; results are bit-identical for the same seed. Every
    run is saved (`fedpace runs`) and, once it has a checkpoint, can be resumed with `fedpace resume NAME`.
    An experiment file (`fedpace run FILE.toml`) holds the same settings; options given after it override them.
    """
    output.require_writable(args)
    execution.check_options(args)
    what = execution.one_experiment(args)
    if args.save_as:
        experiment_file.write_file(args.save_as, experiment_file.of_run(args), args)
    store = execution.open_store(args, needed=args.name is not None)
    watch = monitoring.requested(args)

    def work() -> Run:
        return execution.execute(what, store, watch, name=args.name, every=args.checkpoint_every)

    return output.finish_with(work, what.task, args, "run")
