"""A table of pandas as a file: CSV or Parquet, written whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from fedpace.disk import files
from fedpace.errors import ConfigError

if TYPE_CHECKING:
    from pandas import DataFrame


def write_table(table: DataFrame, path: str | Path, *, parquet: bool = False) -> Path:
    """Write it without the index; ConfigError where no file can be written, or pyarrow is missing."""
    target, buffer = files.require_writable(path, "path"), io.BytesIO()
    if parquet:
        try:
            table.to_parquet(buffer, index=False)
        except ImportError:
            raise ConfigError("a Parquet file needs pyarrow: pip install 'fedpace[parquet]'") from None
    else:
        table.to_csv(buffer, index=False)
    files.write(target, buffer.getvalue())
    return target
