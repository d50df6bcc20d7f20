"""Python logging under the name `fedpace`: silent unless the program that uses it asks for it.

    logging.basicConfig(level=logging.INFO)     beginning, evaluations and end of every run
    logging.getLogger("fedpace").setLevel(...)  DEBUG: also every server step and checkpoint; WARNING: warnings only

Whatever is a warning of Python's `warnings` is a line of the log, too.
"""

from __future__ import annotations

import logging
import warnings

LOG = logging.getLogger("fedpace")
LOG.addHandler(logging.NullHandler())


def warn(message: str, category: type[Warning] = UserWarning, *, stacklevel: int = 1) -> None:
    """A warning to whoever called, `stacklevel` as for `warnings.warn`, and a line of the log."""
    LOG.warning("%s", message)
    warnings.warn(message, category, stacklevel=stacklevel + 1)
