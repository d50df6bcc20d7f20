"""No bytes, however made, do anything to a reader but raise FrameError or decode."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedpace.errors import FrameError
from fedpace.link import frame as wire
from fuzz.readers import frames, readers

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())
READERS = readers()
VALID = list(dict.fromkeys(frames()))
WHATEVER = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])


def read(frame: bytes) -> int:
    """How many readers accept these bytes; all others say FrameError."""
    accepted = 0
    for reader in READERS.values():
        try:
            reader(frame)
            accepted += 1
        except FrameError:
            pass
    return accepted


@given(st.binary(max_size=80))
@WHATEVER
def test_random_bytes(frame):
    read(frame)


@given(st.integers(0, 7), st.integers(0, 255), st.integers(0, 40), st.binary(max_size=120), st.integers(0, 3))
@WHATEVER
def test_random_payloads_under_a_proper_header(kind, flags, aux, payload, ref):
    header = wire.HEADER.pack(wire.VERSION, kind, flags, aux, 1, ref, len(payload))
    read(header + payload)


@given(st.sampled_from(VALID), st.data())
@WHATEVER
def test_valid_frames_with_a_few_bytes_changed(frame, data):
    mutated = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    read(bytes(mutated))


@given(st.sampled_from(VALID), st.data())
@WHATEVER
def test_valid_frames_cut_or_extended_are_never_accepted(frame, data):
    cut = data.draw(st.integers(0, len(frame) - 1))
    assert read(frame[:cut]) == 0
    assert read(frame + data.draw(st.binary(min_size=1, max_size=9))) == 0


def test_every_valid_frame_is_accepted_by_somebody():
    assert all(read(frame) for frame in VALID)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_refusing_changes_nothing(reader):
    """A reader that has just refused every cut of a frame still answers as before."""
    for frame in VALID:
        try:
            before = reader(frame)
        except FrameError:
            continue
        for cut in range(0, len(frame), 7):
            with pytest.raises(FrameError):
                reader(frame[:cut])
        after = reader(frame)
        one, other = (answer[0] if isinstance(answer, tuple) else answer for answer in (before, after))
        assert np.array_equal(one, other)
        return
    raise AssertionError("this reader accepts none of the frames")


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_the_kept_corpus(path):
    """Inputs that reached new code in earlier fuzzing."""
    read(path.read_bytes())
