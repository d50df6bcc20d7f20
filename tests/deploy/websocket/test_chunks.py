"""Messages through two halves without a network: order, credit, and cuts at every place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.pairs import SMALL, small
from fedpace.deploy.websocket.chunks import Gathered, ReceivingHalf, SendingHalf, ViolationError
from fedpace.deploy.websocket.limits import CHUNK_COST
from fedpace.deploy.websocket.spool import Spool
from fedpace.deploy.websocket.wire import AckFrame, ChunkFrame, Place, chunk_header, parse

PAYLOAD = SMALL.payload_bytes


def chunk(number: int, offset: int, total: int, payload: bytes) -> ChunkFrame:
    frame = parse(chunk_header(Place(number, offset), total) + payload)
    assert isinstance(frame, ChunkFrame)
    return frame


def receiving(**limits: int) -> ReceivingHalf:
    own = small(**limits)
    return ReceivingHalf(0, own, Spool(own, None))


def exchange(sender: SendingHalf, receiver: ReceivingHalf, frames: int | None = None) -> list[bytes]:
    """Pass frames and their acknowledgements until all is quiet, or so many frames went; the whole messages."""
    got = []
    while frames is None or frames > 0:
        frame = sender.next_chunk()
        if frame is None:
            break
        frames = None if frames is None else frames - 1
        parsed = parse(frame)
        assert isinstance(parsed, ChunkFrame)
        for body in receiver.take(parsed):
            got.append(bytes(body.whole()))
            body.release()
        if (answer := receiver.acknowledgement()) is not None:
            ack = parse(answer)
            assert isinstance(ack, AckFrame)
            sender.acknowledge(ack.received)
    return got


def test_buffers_are_read_as_one_without_joining_them() -> None:
    whole = Gathered([b"abc", b"", memoryview(b"defgh"), bytearray(b"i")])
    assert len(whole) == 9
    for begin in range(10):
        for end in range(begin, 10):
            assert b"".join(whole.pieces(begin, end)) == b"abcdefghi"[begin:end]


@pytest.mark.parametrize("size", [0, 1, PAYLOAD - 1, PAYLOAD, PAYLOAD + 1, 10 * PAYLOAD, 10 * PAYLOAD + 7])
def test_a_message_of_any_size_arrives_whole(size: int) -> None:
    sender, receiver = SendingHalf(SMALL), receiving()
    content = bytes(range(256)) * (size // 256 + 1)
    sender.put([content[:size]])
    assert exchange(sender, receiver) == [content[:size]]
    assert sender.is_empty and receiver.place == Place(1, 0)


@given(st.lists(st.integers(0, 5 * PAYLOAD), max_size=8), st.lists(st.integers(0, 6), max_size=12))
def test_cuts_anywhere_lose_and_repeat_nothing(sizes: list[int], cuts: list[int]) -> None:
    sender, receiver = SendingHalf(SMALL), receiving()
    sent = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    for content in sent:
        sender.put([content])
    got = []
    for frames in cuts:
        got += exchange(sender, receiver, frames)
        sender.next_chunk()  # lost on the way
        receiver.resume()
        sender.resume(receiver.place)
    assert got + exchange(sender, receiver) == sent
    sender.acknowledge(receiver.place)
    assert sender.is_empty and sender.queued_bytes == 0


def test_no_more_than_the_credit_is_under_way() -> None:
    sender = SendingHalf(SMALL)
    sender.put([bytes(100 * PAYLOAD)])
    frames = []
    while (frame := sender.next_chunk()) is not None:
        frames.append(frame)
    assert len(frames) * (PAYLOAD + CHUNK_COST) == SMALL.credit_bytes
    sender.acknowledge(Place(0, 2 * PAYLOAD))
    assert [sender.next_chunk() is None for _ in range(3)] == [False, False, True]


def test_a_peer_that_ignores_its_credit_is_refused() -> None:
    receiver = receiving(memory_each=65 * 1024, memory_total=65 * 1024)
    held = receiver.take(chunk(0, 0, 64 * 1024, bytes(PAYLOAD)))
    assert held == []
    receiver.take(chunk(0, PAYLOAD, 64 * 1024, bytes(PAYLOAD)))
    receiver.take(chunk(0, 2 * PAYLOAD, 64 * 1024, bytes(PAYLOAD)))
    receiver.take(chunk(0, 3 * PAYLOAD, 64 * 1024, bytes(PAYLOAD)))
    with pytest.raises(ViolationError, match="unacknowledged") as error:
        receiver.take(chunk(0, 4 * PAYLOAD, 64 * 1024, bytes(PAYLOAD)))
    assert error.value.reason == "credit"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (chunk(1, 0, 5, b"hello"), "order"),  # a message is missing
        (chunk(0, 3, 5, b"lo"), "order"),  # its beginning is missing
        (chunk(0, 0, SMALL.message_bytes + 1, b"x"), "size"),
    ],
)
def test_chunks_out_of_turn_or_of_giants_are_refused(wrong: ChunkFrame, reason: str) -> None:
    with pytest.raises(ViolationError) as error:
        receiving().take(wrong)
    assert error.value.reason == reason


def test_a_message_does_not_change_its_size() -> None:
    receiver = receiving()
    receiver.take(chunk(0, 0, 10, b"hello"))
    with pytest.raises(ViolationError, match="became one of 11"):
        receiver.take(chunk(0, 5, 11, b"world"))


def test_without_space_a_message_waits_unacknowledged_and_then_arrives() -> None:
    limits = small(memory_each=66 * 1024, memory_total=66 * 1024)
    spool = Spool(limits, None)
    spool.memory.total = spool.memory.each = 66 * 1024
    receiver, sender = ReceivingHalf(0, limits, spool), SendingHalf(limits)
    first, second = bytes(60 * 1024), bytes(30 * 1024)
    sender.put([first])
    sender.put([second])
    bodies = []
    while (frame := sender.next_chunk()) is not None:
        parsed = parse(frame)
        assert isinstance(parsed, ChunkFrame)
        bodies += receiver.take(parsed)
        if (answer := receiver.acknowledgement()) is not None:
            sender.acknowledge(Place(*parse(answer).received))  # type: ignore[union-attr]
    assert [len(body.whole()) for body in bodies] == [len(first)]
    assert receiver.is_waiting and receiver.place == Place(1, 0)
    bodies[0].release()
    assert receiver.admit() == []  # a part of the second; the rest has not been sent
    assert not receiver.is_waiting and receiver.acknowledgement() is not None


def test_chunks_that_found_no_place_are_sent_again_after_a_cut() -> None:
    """Otherwise every reconnection would add another credit's worth of memory."""
    limits = small()
    spool = Spool(limits, None)
    spool.memory.total = 0
    receiver, sender = ReceivingHalf(0, limits, spool), SendingHalf(limits)
    sender.put([b"once"])
    for _ in range(3):
        frame = sender.next_chunk()
        assert frame is not None
        parsed = parse(frame)
        assert isinstance(parsed, ChunkFrame)
        assert receiver.take(parsed) == [] and receiver.is_waiting
        receiver.resume()
        sender.resume(receiver.place)
        assert not receiver.is_waiting
    spool.memory.total = 10_000
    assert exchange(sender, receiver) == [b"once"]


@pytest.mark.parametrize("received", [Place(0, 1), Place(1, 0), Place(5, 0)])
def test_nobody_acknowledges_what_was_not_sent(received: Place) -> None:
    sender = SendingHalf(SMALL)
    sender.put([b"hello"])
    for claim in (sender.acknowledge, sender.resume):
        with pytest.raises(ViolationError, match="sent until"):
            claim(received)


def test_a_discarded_part_gives_its_space_back() -> None:
    limits = small()
    spool = Spool(limits, None)
    receiver = ReceivingHalf(0, limits, spool)
    receiver.take(chunk(0, 0, 10_000, bytes(100)))
    assert spool.memory.lent > 10_000
    receiver.discard()
    assert spool.memory.lent == 0
