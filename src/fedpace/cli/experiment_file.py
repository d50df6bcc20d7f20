"""Experiment files: what `fedpace run` and `fedpace compare` are told, as TOML.

A file is read as the words of a command line, so both say the same, and words that follow it change it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedpace.cli.parser import Parser
from fedpace.cli.settings import parse_value
from fedpace.disk.toml import read_toml, require_keys, toml_key, toml_lines
from fedpace.errors import ConfigError, require
from fedpace.plug_ins import PLACE, names_plug_ins
from fedpace.untrusted import Number, Whole

SUFFIX = ".toml"
VERBS = ("run", "compare")
_EXPERIMENT: dict[str, object] = {
    "task": str,
    "clients": Whole,
    "partition": str,
    "model": str,
    "population": str,
    "rounds": Whole,
    "seed": Whole,
    "evaluate_every": (Whole, str),
    "client_test": Number,
    "label_smoothing": Number,
    "stop": dict,
    "dp": str,
    "compute": str,
    "device": str,
    "precision": str,
    "workers": Whole,
    "name": str,
}
_OF_VERB: dict[str, dict[str, object]] = {
    "run": {
        "client_metrics_every": Whole,
        "personalise": Whole,
        "initial": str,
        "track": [str],
        "checkpoint_every": (Whole, str),
    },
    "compare": {"seeds": Whole, "target": dict, "baseline": str},
}
_TABLES: dict[str, object] = {"algorithm": str, "algorithms": (dict, [str]), "parameters": dict}
_KEYS = {**_TABLES, **_EXPERIMENT, **_OF_VERB["run"], **_OF_VERB["compare"]}
_VALUE = (str, bool, Number, [(str, bool, Number, [(str, bool, Number)])])  # of a parameter

Settings = Sequence[tuple[str, Any]]  # as --set has them


@dataclass(frozen=True, slots=True)
class FileRow:
    """An algorithm with its own settings."""

    label: str
    algorithm: str
    settings: Mapping[str, Any] = field(default_factory=dict)


# ------------------------------------------------------------ reading


def expanded(parser: Parser, verb: str, words: Sequence[str]) -> argparse.Namespace:
    """The parsed words; an experiment file among them stands for its own."""
    args: argparse.Namespace = parser.parse_args(words)
    named = [args.algorithm] if verb == "run" else args.algorithms if verb == "compare" else []
    files = [word for word in named if word.endswith(SUFFIX)]
    if not files:
        return args
    require(len(named) == 1, "algorithms", named, f"names, or one experiment file (*{SUFFIX})")
    others = list(words)
    others.remove(files[0])
    own = words_of(files[0], verb)
    if getattr(args, "no_store", False):
        own = [word for word in own if not word.startswith("--name=")]
    return parser.parse_args([*own, *others])  # type: ignore[no-any-return]


def words_of(path: str | Path, verb: str) -> list[str]:
    """What `fedpace run` or `fedpace compare` is told by a file."""
    file = Path(path)
    require(file.is_file(), "an experiment file", str(path), "a file that exists")
    tables = read_toml(file)
    require_keys(tables, _KEYS, file.name)
    rows = _rows(tables, file.name)
    shared = _parameters(tables.get("parameters", {}), file.name, "parameters")
    options = [*_options(tables, file, verb), f"--modules={file.resolve().parent}"]
    own = (
        rows[0].settings
        if verb == "run"
        else {f"{row.label}.{k}": v for row in rows for k, v in row.settings.items()}
    )
    settings = [f"--set={name}={_text(value)}" for name, value in [*shared.items(), *own.items()]]
    return [*_named(rows, verb, file.name), *options, *settings]


def _rows(tables: Mapping[str, Any], file: str) -> list[FileRow]:
    one, several = tables.get("algorithm"), tables.get("algorithms")
    require(
        (one is None) != (several is None),
        f"{file}",
        sorted(tables),
        "one with algorithm, or with algorithms",
    )
    if isinstance(several, dict):
        rows = [_row(label, table, file) for label, table in several.items()]
    else:
        rows = [FileRow(name, name) for name in several or [one]]
    require(bool(rows), f"{file}: algorithms", several, "at least one")
    return rows


def _row(label: str, table: object, file: str) -> FileRow:
    good = label.strip() != "" and "=" not in label and not label.startswith("-")
    require(good, f"{file}: a name in [algorithms]", label, "text without =, not starting with -")
    require(isinstance(table, dict), f"{file}: algorithms.{label}", table, "a table")
    own = _parameters(table, file, f"algorithms.{label}")  # type: ignore[arg-type]
    name = own.pop("algorithm", label)
    require(isinstance(name, str), f"{file}: algorithms.{label}.algorithm", name, "text")
    return FileRow(label, name, own)


def _parameters(table: Mapping[str, Any], file: str, inside: str) -> dict[str, Any]:
    require_keys(table, dict.fromkeys(table, _VALUE), file, inside)
    return dict(table)


def _named(rows: Sequence[FileRow], verb: str, file: str) -> list[str]:
    if verb == "compare":
        return [
            row.algorithm if row.label == row.algorithm else f"{row.label}={row.algorithm}" for row in rows
        ]
    labels = ", ".join(row.label for row in rows)
    require(
        len(rows) == 1, f"{file} for fedpace run", labels, "of one algorithm; fedpace compare runs several"
    )
    return [rows[0].algorithm]


def _options(tables: Mapping[str, Any], file: Path, verb: str) -> Iterator[str]:
    other = {"compare": "run", "run": "compare"}[verb]
    for key, value in tables.items():
        if key in ("population", "initial", "partition") and (file.parent / value).exists():
            value = str((file.parent / value).resolve())
        if key == "task" and value.startswith(("folder:", "leaf:")):
            kind, _, path = value.partition(":")
            value = f"{kind}:{(file.parent / path).resolve()}"
        if key == "clients" and PLACE.fullmatch(str(tables.get("task"))):
            raise ConfigError(f"{file.name}: clients must be left to {tables['task']}, which makes the task")
        if key in ("track", "initial") and verb == "compare":
            raise ConfigError(f"{file.name}: {key} must go with fedpace run; got it in a comparison")
        if key not in _TABLES and key not in _OF_VERB[other]:
            yield from (f"--{key.replace('_', '-')}={text}" for text in _texts(value))


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}={number}" for name, number in value.items()]
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _text(value: Any) -> str:
    """As --set reads it."""
    return value if isinstance(value, str) else repr(value)


def row_of(word: str) -> tuple[str, str]:
    """`ROW=ALGORITHM`, or an algorithm that is its own row."""
    label, equals, name = word.partition("=")
    return (label, name) if equals and not word.startswith("Algorithm(") else (word, word)


# ------------------------------------------------------------ writing


def file_text(verb: str, rows: Iterable[FileRow], shared: Settings, args: argparse.Namespace) -> str:
    """The file that says what these arguments say."""
    rows, lines = list(rows), [f"# fedpace {verb} FILE"]
    single = verb == "run"
    head = {"algorithm": rows[0].algorithm} if single else {}
    lines += toml_lines({**head, **_said(args, verb)})
    parameters = {**dict(shared), **(rows[0].settings if single else {})}
    if parameters:
        lines += ["", "[parameters]", *toml_lines(_plain(parameters))]
    for row in [] if single else rows:
        named = {"algorithm": row.algorithm} if row.algorithm != row.label else {}
        lines += ["", f"[algorithms.{toml_key(row.label)}]", *toml_lines({**named, **_plain(row.settings)})]
    return "\n".join(lines) + "\n"


def of_run(args: argparse.Namespace) -> str:
    """The file of a `fedpace run`."""
    return file_text("run", [FileRow(args.algorithm, args.algorithm)], args.set, args)


def _said(args: argparse.Namespace, verb: str) -> dict[str, Any]:
    """The options that decide the outcome, and others where they were given."""
    from fedpace.cli.experiment import cores, own_task, places

    left_out = {"clients"} if own_task(args) else set()
    usual = {"compute": "auto", "evaluate_every": "1", "workers": cores(), "checkpoint_every": "60s"}
    known = {key: getattr(args, key, None) for key in (*_EXPERIMENT, *_OF_VERB[verb]) if key not in left_out}
    known |= {**places(args), "stop": dict(args.stop) or None}
    if known.get("target"):
        metric, value = known["target"]  # type: ignore[misc]
        known["target"] = {metric: value}
    return {key: value for key, value in known.items() if value not in (None, [], usual.get(key))}


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers as numbers, everything else as --set would be told."""
    return {name: _as_toml(value) for name, value in settings.items()}


def _as_toml(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value if _reads_back(value) else repr(value)
    return "none" if value is None else repr(value)


def _reads_back(text: str) -> bool:
    try:
        return bool(parse_value(text) == text)
    except ConfigError:
        return False


def write_file(path: str | Path, text: str, args: argparse.Namespace) -> None:
    """Put it there, beside the modules that it names."""
    from fedpace.disk import files

    folder = getattr(args, "modules", None)
    beside = folder is None or Path(path).resolve().parent == Path(folder).resolve()
    own = PLACE.fullmatch(args.task) or names_plug_ins(text)
    require(not own or beside, "the file", str(path), f"in {folder}, beside the modules that it names")
    files.write(path, text.encode())
