"""No bytes, however made, do anything to a reader but raise FrameError or decode."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedpace.errors import FrameError
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind
from fuzz.readers import frames, readers

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())
READERS = readers()
DECODERS = {name: reader for name, reader in READERS.items() if not name.startswith("describe")}
VALID = list(dict.fromkeys(frames()))
WHATEVER = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])


def read(frame: bytes, readers=READERS) -> int:
    """How many readers accept these bytes; all others say FrameError."""
    accepted = 0
    for reader in readers.values():
        try:
            reader(frame)
            accepted += 1
        except FrameError:
            pass
    return accepted


def accepted_by(decoder) -> list[bytes]:
    """The shortest valid frame of each kind, and with each set of flags, that it accepts."""
    found = {}
    for frame in sorted(VALID, key=len):
        with suppress(FrameError):
            decoder(frame)
            found.setdefault(frame[1:3], frame)
    return list(found.values())


def flipped(frame: bytes, bit: int) -> bytes:
    return (int.from_bytes(frame, "little") ^ 1 << bit).to_bytes(len(frame), "little")


@given(st.binary(max_size=80))
@WHATEVER
def test_random_bytes(frame):
    read(frame)
    read(wire.sealed(frame))


@given(st.integers(0, 7), st.integers(0, 255), st.integers(0, 40), st.binary(max_size=120), st.integers(0, 3))
@WHATEVER
def test_random_payloads_under_a_proper_header(kind, flags, aux, payload, ref):
    fields = wire.FIELDS.pack(wire.VERSION, kind, flags, aux, 1, ref, len(payload))
    read(wire.sealed(fields + bytes(4) + payload))


@given(st.sampled_from(VALID), st.data())
@WHATEVER
def test_valid_frames_with_a_few_bytes_changed(frame, data):
    mutated = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    read(wire.sealed(bytes(mutated)))


@given(st.sampled_from(VALID), st.data())
@WHATEVER
def test_valid_frames_cut_or_extended_are_never_accepted(frame, data):
    cut = data.draw(st.integers(0, len(frame) - 1))
    longer = frame + data.draw(st.binary(min_size=1, max_size=9))
    assert read(frame[:cut]) == read(wire.sealed(frame[:cut])) == 0
    assert read(longer) == read(wire.sealed(longer)) == 0


def test_every_valid_frame_is_accepted_by_somebody():
    assert all(read(frame, DECODERS) for frame in VALID)


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
def test_every_flipped_bit_is_noticed(decoder):
    """By codecs, and by links that hold something, in the shortest frame of each kind that they accept."""
    for frame in accepted_by(decoder):
        for bit in range(8 * min(len(frame), 200)):
            with pytest.raises(FrameError, match="check word|frame version"):
                decoder(flipped(frame, bit))


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
def test_a_frame_is_checked_once(decoder, monkeypatch):
    """A long one takes a pass over memory."""
    checked = []
    monkeypatch.setattr(wire, "check", checked.append)
    for frame in accepted_by(decoder):
        checked.clear()
        decoder(frame)
        assert sum(each is frame for each in checked) == 1


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
                reader(wire.sealed(frame[:cut]))
        after = reader(frame)
        one, other = (answer[0] if isinstance(answer, tuple) else answer for answer in (before, after))
        assert np.array_equal(one, other)
        return
    raise AssertionError("this reader accepts none of the frames")


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_the_kept_corpus(path):
    """Inputs that reached new code in earlier fuzzing."""
    read(wire.sealed(path.read_bytes()))


def test_the_kept_corpus_gets_past_the_header():
    """Each kind of frame in it is decoded by somebody; were the format left behind, none would be."""
    accepted = {path.read_bytes()[1] for path in CORPUS if read(path.read_bytes(), DECODERS)}
    assert accepted >= {Kind.DENSE, Kind.SKIP, Kind.SPARSE, Kind.SIGN, Kind.QUANT, Kind.SET_SPARSE}
