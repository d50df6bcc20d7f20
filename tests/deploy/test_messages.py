"""Messages: whatever was changed, cut off or made up is refused; nothing else is raised."""

from __future__ import annotations

import contextlib
import json
import zlib
from random import Random

import pytest

from fedpace.deploy.messages import Envelope, Message, MessageKind, greeting, peek, to_update, welcomed
from fedpace.errors import RemoteError

ENVELOPE = Envelope(b"r" * 16, b"p" * 32)
HEADER = {"session": 1, "version": 0, "round": 0, "steps": 4, "a_norm1": 4.0, "samples": 2.0}
UPDATE = Message(
    MessageKind.UPDATE, HEADER | {"generation": 0, "origin": 7}, {"update": b"abc", "control": b""}
)
DATA = b"".join(ENVELOPE.pack(UPDATE))


def test_a_message_arrives_as_it_was_sent() -> None:
    found = ENVELOPE.unpack(memoryview(DATA))
    assert found.frames == UPDATE.frames
    assert found.header.items() >= UPDATE.header.items()
    assert peek(DATA) == (MessageKind.UPDATE, ENVELOPE.run)


def test_an_update_may_say_how_long_its_training_took() -> None:
    """It did not in older journals; what is no number is refused, and it never becomes a field of the update."""
    timed = Message(MessageKind.UPDATE, {**UPDATE.header, "train_s": 1.5}, UPDATE.frames)
    found = ENVELOPE.unpack(b"".join(ENVELOPE.pack(timed)))
    assert found.header["train_s"] == 1.5 and to_update(3, found) == to_update(3, ENVELOPE.unpack(DATA))
    wrong = Message(MessageKind.UPDATE, {**UPDATE.header, "train_s": "long"}, UPDATE.frames)
    with pytest.raises(RemoteError, match="does not have the fields"):
        ENVELOPE.unpack(b"".join(ENVELOPE.pack(wrong)))


def test_every_flipped_bit_before_the_frames_is_noticed() -> None:
    """Frames have check words of their own."""
    for at in range(len(DATA) - len(b"abc")):
        for bit in range(8):
            changed = bytearray(DATA)
            changed[at] ^= 1 << bit
            with pytest.raises(RemoteError):
                ENVELOPE.unpack(changed)


def test_what_is_cut_off_or_too_long_is_noticed() -> None:
    for size in range(len(DATA)):
        with pytest.raises(RemoteError):
            ENVELOPE.unpack(DATA[:size])
    with pytest.raises(RemoteError):
        ENVELOPE.unpack(DATA + b"x")


def test_another_run_and_another_plan_are_refused() -> None:
    for other, what in ((Envelope(b"q" * 16, b"p" * 32), "run"), (Envelope(b"r" * 16, b"q" * 32), "plan")):
        with pytest.raises(RemoteError, match=f"another {what}"):
            other.unpack(DATA)


@pytest.mark.parametrize(
    "change",
    [
        {"session": "1"},
        {"session": True},
        {"session": 2**70},
        {"steps": None},
        {"a_norm1": [1]},
        {"more": 1},
        {"frames": [["update", -1]]},
        {"frames": [["update", 10**9]]},
        {"frames": [[1, 1]]},
        {"frames": [["update"]]},
        {"frames": [["update", 0]] * 9},
    ],
)
def test_headers_have_the_fields_of_their_kind_and_no_others(change: dict[str, object]) -> None:
    header = dict(UPDATE.header) | change
    data = _packed(MessageKind.UPDATE, header)
    with pytest.raises(RemoteError):
        ENVELOPE.unpack(data)


def _packed(kind: MessageKind, header: object) -> bytes:
    """A message with a sound check word, whatever its header says."""
    text = json.dumps(header).encode()
    head = b"".join(ENVELOPE.pack(Message(MessageKind.LEAVE)))[:40]
    head = head[:4] + bytes([kind]) + len(text).to_bytes(3, "little") + head[8:]
    return head + zlib.crc32(text, zlib.crc32(head)).to_bytes(4, "little") + text


def test_random_bytes_raise_nothing_else() -> None:
    random = Random(0)
    for _ in range(2000):
        data = bytearray(DATA if random.random() < 0.5 else random.randbytes(random.randrange(200)))
        for _ in range(random.randrange(4)):
            if data:
                data[random.randrange(len(data))] = random.randrange(256)
        for read in (ENVELOPE.unpack, greeting, welcomed, peek):
            with contextlib.suppress(RemoteError):
                read(bytes(data))


def test_headers_of_any_json_raise_nothing_else() -> None:
    random = Random(1)

    def value(depth: int) -> object:
        kinds = [None, True, -1, 2**80, 0.5, "x", [], {}]
        if depth and random.random() < 0.5:
            return {random.choice("ab"): value(depth - 1)} if random.random() < 0.5 else [value(depth - 1)]
        return random.choice(kinds)

    for _ in range(2000):
        kind = random.choice(list(MessageKind))
        header = {name: value(3) for name in UPDATE.header} if random.random() < 0.5 else value(3)
        with contextlib.suppress(RemoteError):
            ENVELOPE.unpack(_packed(kind, header))
