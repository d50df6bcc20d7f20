"""TOML from people: read whole, its keys and values checked; errors in one line."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedpace.errors import ConfigError, require, unknown
from fedpace.untrusted import Number, Whole, fits, read_regular

MOST_BYTES = 1 << 20
_WORDS: dict[object, str] = {
    str: "text",
    bool: "true or false",
    Whole: "a whole number",
    Number: "a number",
    dict: "a table",
}


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file."""
    try:
        return tomllib.loads(read_regular(path, MOST_BYTES).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} must be TOML ({error})") from None


def require_keys(table: Mapping[str, Any], shapes: Mapping[str, object], file: str, inside: str = "") -> None:
    """Refuse keys that are none, and values of another shape; `inside`: the table's name."""
    for key, value in table.items():
        if key not in shapes:
            where = f"[{inside}] in {file}" if inside else file
            raise unknown(f"a key of {where}", key, shapes)
        name = f"{inside}.{key}" if inside else key
        require(fits(value, shapes[key]), f"{file}: {name}", value, _allowed(shapes[key]))


def _allowed(shape: object) -> str:
    if isinstance(shape, tuple):
        return " or ".join(map(_allowed, shape))
    if isinstance(shape, list):
        return f"a list ({_allowed(shape[0])} each)"
    return _WORDS[shape]


def toml_lines(table: Mapping[str, Any]) -> Iterable[str]:
    """`key = value` for text, numbers, true, false, and lists and tables of them."""
    return (f"{toml_key(key)} = {toml_value(value)}" for key, value in table.items())


def toml_key(key: str) -> str:
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else toml_value(key)


def toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, str):  # a JSON string is one of TOML's, but for DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return f"{{ {', '.join(toml_lines(value))} }}"
    return json.dumps(value)
