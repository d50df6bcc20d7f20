"""Coverage-guided fuzzing of one loader of files. Needs atheris (`pip install atheris`), so it is no test.

    PYTHONPATH=src:tests python tests/fuzz/fuzz_loaders.py idx tests/fuzz/files/idx -max_total_time=600

The first word is a name in `loaders.py`. What it finds goes into the folder, which `test_loaders.py` replays.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["fedpace"]):
    from fedpace.errors import FedpaceError
    from fedpace.tasks.datasets import bounded
    from fuzz.loaders import LIMIT_BYTES, loaders

LOAD = loaders()[sys.argv.pop(1)].load


def try_it(content: bytes) -> None:
    try:
        LOAD(content)
    except FedpaceError:
        return


if __name__ == "__main__":
    bounded.LIMIT_BYTES = bounded.LIMIT_ARCHIVE_BYTES = LIMIT_BYTES
    atheris.Setup(sys.argv, try_it)
    atheris.Fuzz()
