"""From command-line words to a verb to an exit code."""

from __future__ import annotations

import importlib
import inspect
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Sequence

from fedpace import __version__
from fedpace.cli.experiment_file import expanded
from fedpace.cli.parser import Parser
from fedpace.cli.wrapping import wrapped
from fedpace.errors import FedpaceError, unknown
from fedpace.untrusted import visible

VERBS = {
    "run": "Simulate one algorithm and show the result.",
    "resume": "Resume a run from its last checkpoint.",
    "runs": "List, show, delete and export saved runs.",
    "compare": "Run several algorithms on the same task and devices, side by side.",
    "sweep": "Run a grid of settings and rank them.",
    "report": "Write a report on saved runs as one web page.",
    "ui": "Serve a live page about runs, comparisons and the fleet.",
    "reproduce": "Reproduce tables and figures of the papers, next to the published numbers.",
    "list": "List algorithms, tasks, models, partitions and populations.",
    "timeline": "Draw a client timeline and summarise it per client.",
    "advise": "Compute learning-rate limits, bounds, delays and recommended rates before a run.",
    "data": "Download, import, verify and inspect data sets.",
    "deploy": "Create a study for real clients, try it locally, and manage its clients.",
    "serve": "Serve a study to real clients.",
    "join": "Join a study as a client, with this machine's own data.",
    "replay": "Replay a deployed run from its journal, offline.",
    "bench": "Benchmark fedpace against plain torch loops on this machine.",
}

LONGEST_LINE = 2000  # characters of an error

_HELP = """\
usage: fedpace COMMAND ...

Federated optimization, every client at its own pace.

{verbs}

`fedpace COMMAND --help` explains one command. A first experiment:

  fedpace run fedgm --task digits --partition dirichlet:0.5 --rounds 50"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; an expected error becomes one line and an exit code."""
    words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    verb = words[0] if words[0] in VERBS else None
    try:
        code = _run_verb(verb, words[1:]) if verb else _top_level(words[0])
        sys.stdout.flush()
        return code
    except FedpaceError as error:
        return _fail(verb, error, 2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(verb, error, 2)
    except MemoryError as error:
        return _fail(verb, f"out of memory ({error or 'no details'})", 2)
    except OverflowError as error:
        return _fail(verb, f"a number is too large to compute with ({error})", 2)
    except KeyboardInterrupt as stop:
        return _fail(verb, str(stop) or "interrupted", 128 + getattr(stop, "signal", signal.SIGINT))
    except SystemExit as stop:  # argparse after --help
        return int(stop.code or 0)


def _top_level(word: str) -> int:
    if word in ("-h", "--help"):
        print(_help())
    elif word == "--version":
        print(f"fedpace {__version__}")
    else:
        raise unknown("command", word, VERBS)
    return 0


def _help() -> str:
    room, indent = shutil.get_terminal_size().columns, " " * 13
    lines = [line for verb, said in VERBS.items() for line in wrapped(said, room, f"  {verb:<10} ", indent)]
    return _HELP.format(verbs="\n".join(lines))


def parser_of(verb: str) -> Parser:
    """The parser of one verb's words; the parsed ones have its `command`."""
    module = importlib.import_module(f"fedpace.cli.verbs.{verb}")
    parser = Parser(
        prog=f"fedpace {verb}",
        description=inspect.getdoc(module.command),
    )
    module.add_arguments(parser)
    parser.set_defaults(command=module.command)
    return parser


def _run_verb(verb: str, words: Sequence[str]) -> int:
    args = expanded(parser_of(verb), verb, words)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", RuntimeWarning)  # overflow in a run that diverges: that is reported
        warnings.showwarning = lambda message, *_: print(
            visible(f"fedpace {verb}: note: {message}"), file=sys.stderr
        )
        return int(args.command(args))


def _fail(verb: str | None, error: object, code: int) -> int:
    line = visible(str(error))
    if len(line) > LONGEST_LINE:
        line = f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 2 :]}"
    print(f"fedpace {verb}: {line}" if verb else f"fedpace: {line}", file=sys.stderr)
    return code
