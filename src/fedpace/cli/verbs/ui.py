"""fedpace ui"""

from __future__ import annotations

import argparse
from pathlib import Path

from fedpace.cli.parser import count
from fedpace.errors import ConfigError, require


def port(text: str) -> int:
    """0 is any free one."""
    return count(text, low=0, high=65535)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="NAME", help="address to listen on (default: %(default)s)"
    )
    parser.add_argument(
        "--port",
        type=port,
        default=8421,
        metavar="N",
        help="port to listen on (default: %(default)s; 0: any free port)",
    )
    token = parser.add_mutually_exclusive_group()
    token.add_argument(
        "--token", metavar="T", help="access token for actions (default: generated and printed)"
    )
    token.add_argument(
        "--token-file", metavar="F", help="read the token from a file instead of the command line"
    )
    parser.add_argument(
        "--private", action="store_true", help="require the token for reading, too, also from this machine"
    )
    parser.add_argument(
        "--experiments",
        metavar="DIR",
        help="folder of experiment files (*.toml) that can be started from the page",
    )


def command(args: argparse.Namespace) -> int:
    """Serve a live page about runs, comparisons and the fleet.

    Prints its address when ready. Actions require the token; reading requires it too with --private, and whenever
    --host is not a loopback address.
    """
    try:
        from fedpace.dashboard.server import PageOptions, serve, token_in
    except ImportError as error:
        raise ConfigError(f"fedpace ui needs packages: pip install 'fedpace[ui]' ({error})") from None
    folder = None if args.experiments is None else Path(args.experiments)
    require(folder is None or folder.is_dir(), "--experiments", args.experiments, "a folder")
    token = token_in(args.token_file) if args.token_file is not None else args.token
    serve(PageOptions(args.host, args.port, token, args.private, folder))
    return 0
