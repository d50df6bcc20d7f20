"""Plug-ins: `module:name`, beside an experiment file or among installed packages, never in the working directory.

Naming one executes its module, which is its owner's own code. Of what a module defines only functions (tasks,
algorithms) and dataclasses (rules) are called, and with literals only.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from importlib.machinery import ModuleSpec, PathFinder
from inspect import isclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from fedpace.errors import ConfigError, require
from fedpace.expressions import evaluate, parsed, rule_classes
from fedpace.untrusted import brief

PLACE = re.compile(
    r"(?!(?:folder|leaf):)[A-Za-z_][\w.]*:[A-Za-z_]\w*"
)  # module:name, and no data on the disk
_CALLS = re.compile(rf"""(?P<quoted>'[^']*'|"[^"]*")|(?<![\w.])(?P<place>{PLACE.pattern})(?=\s*\()""")


# ------------------------------------------------------------ rules


@dataclass(frozen=True, slots=True)
class PlugIn:
    """A value with rules of one's own in it, as text: `my_module:Lion(lr=0.01)`; built where its module is known."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def built(self, folder: Path | None) -> Any:
        """The value; its modules are looked for in `folder` first."""
        known: dict[str, type] = rule_classes()

        def by_name(match: re.Match[str]) -> str:
            if match["quoted"]:
                return match[0]
            kind = rule_class_at(match["place"], folder)
            known[name := _free(kind.__name__, known)] = kind
            return name

        text = _CALLS.sub(by_name, self.text)
        try:
            return evaluate(parsed(text.strip()), known)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if isinstance(error, ConfigError):
                raise
            allowed = "a rule with literal arguments such as my_module:Lion(lr=0.01)"
            raise ConfigError(f"value must be {allowed}; got {brief(self.text)}") from None


def names_plug_ins(text: str) -> bool:
    """Whether rules of one's own are called in this text."""
    return any(match["place"] for match in _CALLS.finditer(text))


def _free(name: str, known: dict[str, type]) -> str:
    return name if name not in known else _free(f"{name}_", known)


def rule_class_at(place: str, folder: Path | None = None) -> type:
    """The dataclass `module:name`."""
    module, found = _defined(place, folder)
    good = isclass(found) and is_dataclass(found) and found.__module__ == module.__name__
    require(good, place, found, "a dataclass defined there, as rules are")
    return found  # type: ignore[no-any-return]


def function_at(place: str, folder: Path | None = None) -> FunctionType:
    """The function `module:name`."""
    module, found = _defined(place, folder)
    good = isinstance(found, FunctionType) and found.__module__ == module.__name__
    require(good, place, found, "a function defined there")
    return found  # type: ignore[no-any-return]


def _defined(place: str, folder: Path | None) -> tuple[ModuleType, Any]:
    require(bool(PLACE.fullmatch(place)), "a plug-in", place, "named as module:name")
    name, _, attribute = place.partition(":")
    module = module_at(name, folder)
    if not hasattr(module, attribute):
        raise ConfigError(f"{name} must define {attribute}; got {module.__file__} without it")
    return module, getattr(module, attribute)


# ------------------------------------------------------------ modules


def module_at(name: str, folder: Path | None = None) -> ModuleType:
    """The module of this name in `folder`, else that of an installed package."""
    first, folder = name.partition(".")[0], None if folder is None else folder.resolve()
    require(first not in sys.stdlib_module_names, "module", name, "one of yours, not of Python's own")
    try:
        with _without_working_directory(folder):
            beside = None if folder is None else PathFinder.find_spec(first, [str(folder)])
            if beside is not None and beside.loader is not None:
                _load(beside, str(folder))
            return importlib.import_module(name)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        where = f"in {folder} or among installed packages" if folder else "among installed packages"
        raise ConfigError(f"module {name} was not found {where}: {error}") from None
    except Exception as error:  # whatever its code does
        raise ConfigError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error


def _load(spec: ModuleSpec, folder: str) -> None:
    """Execute a module that lies in a folder; its neighbours and worker processes find each other afterwards."""
    if folder not in sys.path:
        sys.path.append(folder)
    there = sys.modules.get(spec.name)
    if there is not None:
        same = getattr(there.__spec__, "origin", None) == spec.origin
        require(same, "a module", spec.name, f"named like no other; {there.__name__} is imported already")
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    except BaseException:
        del sys.modules[spec.name]
        raise


@contextmanager
def _without_working_directory(folder: Path | None) -> Iterator[None]:
    """`python -m` puts it first among the places of modules: a file there must not be taken for a package."""
    here, before = Path.cwd().resolve(), list(sys.path)
    if folder is None or folder.resolve() != here:
        sys.path[:] = [entry for entry in before if entry and Path(entry).resolve() != here]
    try:
        yield
    finally:
        sys.path[:] = [*before, *(entry for entry in sys.path if entry not in before)]
