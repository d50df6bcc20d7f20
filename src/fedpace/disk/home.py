"""Where things lie that outlive a command."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """`FEDPACE_HOME`, or a folder in the user's data directory."""
    if chosen := os.environ.get("FEDPACE_HOME"):
        return Path(chosen).expanduser()
    import platformdirs

    return platformdirs.user_data_path("fedpace")


def data_cache() -> Path:
    """`FEDPACE_DATA`, or a folder in the user's cache directory."""
    if chosen := os.environ.get("FEDPACE_DATA"):
        return Path(chosen).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("fedpace") / "data"
