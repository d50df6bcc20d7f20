"""Coverage-guided fuzzing of everything that reads frames. Needs atheris (`pip install atheris`), so it is no test.

    PYTHONPATH=src:tests NUMBA_BOUNDSCHECK=1 python tests/fuzz/fuzz_frames.py tests/fuzz/corpus -max_total_time=600

Inputs get the check word that fits them, else none would reach a decoder. What it finds goes into the corpus,
which `test_frames.py` replays. With bounds checks on, a compiled loop that leaves its buffer is an IndexError
like any other bug.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["fedpace"]):
    from fedpace.errors import FrameError
    from fedpace.link.wire.frame import sealed
    from fuzz.readers import readers

READERS = readers()


def try_all(data: bytes) -> None:
    frame = sealed(data)
    for reader in READERS.values():
        try:
            reader(frame)
        except FrameError:
            continue


if __name__ == "__main__":
    atheris.Setup(sys.argv, try_all)
    atheris.Fuzz()
