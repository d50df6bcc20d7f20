"""run.toml: all that the server of a study is told, checked before anything begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedpace import algorithms
from fedpace.algorithm import Algorithm
from fedpace.deploy.expectations import Patience
from fedpace.deploy.identity.enrolment import split_address
from fedpace.deploy.journal.disk_journal import JournalLimits
from fedpace.disk.toml import read_toml, require_keys
from fedpace.errors import ConfigError, require, unknown
from fedpace.expressions import evaluate, parsed, rule_classes
from fedpace.untrusted import Number, Whole

RUN_FILE, CLIENT_FILE = "run.toml", "client.py"
RULES = (
    "pace",
    "local",
    "up",
    "down",
    "aggregate",
    "server_opt",
    "correction",
    "privacy",
)  # fields that may be replaced
_SHAPES: dict[str, dict[str, object]] = {
    "run": {
        "algorithm": str,
        "clients": Whole,
        "rounds": Whole,
        "seed": Whole,
        "evaluate": str,
        "evaluate_every": (Whole, str),
        "wait_for": Whole,
        "samples": [Number],
    },
    "rules": dict.fromkeys(RULES, str),
    "server": {"listen": str, "address": str},
    "journal": {"mode": str, "every_s": Number, "max_bytes": Whole, "reserve_bytes": Whole},
    "patience": dict.fromkeys(Patience.__dataclass_fields__, Number),
}
_NEEDED = ("algorithm", "clients", "rounds")
_SERVED = tuple(name for name in (*_SHAPES["run"], "journal", "patience") if name != "algorithm")

Rules = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A study as its run.toml says; `algorithm` and the rules that replace its own as text."""

    folder: Path
    algorithm: str
    clients: int
    rounds: int
    seed: int = 0
    evaluate: str = "auto"
    evaluate_every: int | str = 1
    wait_for: int | None = None
    samples: tuple[float, ...] | None = None
    rules: Mapping[str, str]
    listen: tuple[str, int]
    address: str
    journal: JournalLimits
    patience: Patience

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    def for_server(self) -> dict[str, Any]:
        """The options that `serve` takes as they are."""
        return {name: getattr(self, name) for name in _SERVED}

    def built(self, own: Rules) -> Algorithm:
        """The algorithm; `own`: further rules by name."""
        made = _read(self.algorithm, {**_algorithms(), **own}, "algorithm")
        require(isinstance(made, Algorithm), "algorithm", self.algorithm, "such as fedavg(client_lr=0.1)")
        replaced = {
            field: _read(text, {**rule_classes(), **own}, field) for field, text in self.rules.items()
        }
        algorithm: Algorithm = replace(made, **replaced)
        return algorithm


def read_settings(folder: str | Path) -> Settings:
    """The settings in a study's folder; ConfigError in one line names what is wrong."""
    place = Path(folder)
    path = place / RUN_FILE
    require(
        path.is_file(), "a study", str(folder), f"a folder with {RUN_FILE} (`fedpace deploy new` creates one)"
    )
    tables = read_toml(path)
    _check(tables, path)
    run, server = dict(tables["run"]), tables.get("server", {})
    listen = server.get("listen", "127.0.0.1:7443")
    if "samples" in run:
        run["samples"] = tuple(map(float, run["samples"]))
    return Settings(
        folder=place,
        rules=tables.get("rules", {}),
        listen=split_address(listen),
        address=server.get("address", listen),
        journal=JournalLimits(**tables.get("journal", {})),
        patience=Patience(**tables.get("patience", {})),
        **run,
    )


def _check(tables: Mapping[str, Any], path: Path) -> None:
    for name, table in tables.items():
        if name not in _SHAPES:
            raise unknown(f"a table of {path.name}", name, _SHAPES)
        require(isinstance(table, dict), f"{path.name}: {name}", table, f"a table, [{name}]")
        require_keys(table, _SHAPES[name], path.name, name)
    missing = [key for key in _NEEDED if key not in tables.get("run", {})]
    require(
        not missing, f"{path.name}: [run]", sorted(tables.get("run", {})), f"one with {', '.join(_NEEDED)}"
    )


def _algorithms() -> dict[str, Callable[..., Any]]:
    return {**rule_classes(), **{name: getattr(algorithms, name) for name in algorithms.__all__}}


def _read(text: str, names: Rules, what: str) -> Any:
    """A value written as a call, such as `fedbuff(buffer=2)`; a bare name is a call without arguments."""
    called = text if "(" in text else f"{text}()"
    try:
        return evaluate(parsed(called.strip()), names)
    except (SyntaxError, RecursionError, MemoryError):
        raise ConfigError(f"{what} must be written like fedbuff(buffer=2); got {text!r}") from None
