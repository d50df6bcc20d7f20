"""The command line: `fedpace VERB ...`.

A verb is one module in `verbs/`, found by its name and imported only when it is asked for. It has

    add_arguments(parser: argparse.ArgumentParser) -> None
    command(args: argparse.Namespace) -> int        the exit code; its docstring is the help text

and keeps numpy, torch, matplotlib and rich out of its top level, so that `--help` stays fast.
Exit codes: 0 done, 2 bad input, 3 diverged, 130 interrupted. Expected errors (`fedpace.errors`)
become one line on stderr; a verb only catches those after which it still has a partial run to write.
"""

from fedpace.cli.entry import VERBS, main

__all__ = ["VERBS", "main"]
