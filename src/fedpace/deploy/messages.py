"""Messages between our server and our clients, as bytes.

    offset  bytes
    0       4     magic "fpd\\x01": fedpace deployment, schema 1
    4       1     kind
    5       3     length of the header
    8       16    run id
    24      16    the first half of the plan's SHA-256
    40      4     CRC-32 of the 40 bytes before and of the header
    44      ...   header: JSON, checked against the schema of its kind
    ...     ...   frames, one after another, as the links made them: each has a check word of its own

Whatever is wrong is a RemoteError, raised before anything is allocated for it. Nothing here is unpickled.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from fedpace.deploy.transport import Buffer
from fedpace.errors import RemoteError
from fedpace.link.codecs.dense import Dense, encode_dense
from fedpace.link.protocol import Context
from fedpace.server import Parcel, Receipt, Update
from fedpace.server.messages import Framed
from fedpace.untrusted import Number, Whole, fits
from fedpace.vector import Vector

MAGIC = b"fpd\x01"
PREFIX = struct.Struct("<4sB3s16s16sI")
LONGEST_HEADER = 1 << 20
MOST_FRAMES = 8


class MessageKind(IntEnum):
    # client -> server
    HELLO = 1  # who I am, what I hold, what I am doing
    UPDATE = 2  # a client update, or the request for a whole model
    WANT = 3  # give me the next broadcast model
    PAUSE = 4  # do not choose me (`accept=` said no)
    READY = 5  # choose me again
    DROPPED = 6  # the session you wait for comes to nothing
    EVALUATED = 7
    LEAVE = 8
    LACK = 9  # I made another initial model: send yours
    ESTIMATED = 10  # sums over my samples, for the running statistics of a model
    # server -> client
    WELCOME = 32
    INITIAL = 33  # the initial model, where the client made another one
    MODEL = 34
    POLL = 35
    INTERRUPT = 36  # with the frames of a model where the client averages it into its own
    RECEIPT = 37
    EVALUATE = 38
    RECALL = 39  # say hello again: you were not heard of for long
    BYE = 40
    ESTIMATE = 41  # add up what running statistics need of your samples


ANSWERS_TO_HELLO = (MessageKind.WELCOME, MessageKind.BYE)

_STAMP = [Whole]  # the server's incarnation and journal position
_FRAMES = [[object]]
_MODEL = {
    "version": Whole,
    "round": Whole,
    "generation": Whole,
    "clients_per_step": Whole,
    "step_norms": [Number],
    "frames": _FRAMES,
}
_SCHEMA: dict[MessageKind, dict[str, Any]] = {
    MessageKind.HELLO: {
        "greeting": Whole,  # counted by the client: the welcome says which one it answers
        "restarted": bool,
        "samples": Number,
        "acknowledged": Whole,
        "upload": Whole,
        "doing": ([Whole], None),
        "stamp": _STAMP,
    },
    MessageKind.UPDATE: {
        "session": Whole,
        "version": Whole,
        "round": Whole,
        "steps": Whole,
        "a_norm1": Number,
        "samples": Number,
        "generation": Whole,
        "origin": Whole,  # the journal position of the model it started from, of which one may have come twice
        "frames": _FRAMES,
    },
    MessageKind.WANT: {"newer_than": Whole},
    MessageKind.PAUSE: {},
    MessageKind.READY: {},
    MessageKind.DROPPED: {"round": Whole},
    MessageKind.EVALUATED: {"version": Whole, "samples": Number, "metrics": {str: Number}},
    MessageKind.LEAVE: {},
    MessageKind.LACK: {},
    MessageKind.ESTIMATED: {"version": Whole, "samples": Number, "frames": _FRAMES},
    MessageKind.WELCOME: {
        "greeting": Whole,
        "client": Whole,
        "clients": Whole,
        "rounds": Whole,
        "seed": Whole,
        "plan": str,
        "taken": Whole,
        "forget": bool,
        "initial": str,
        "stamp": _STAMP,
    },
    MessageKind.INITIAL: {"frames": _FRAMES},
    MessageKind.MODEL: {**_MODEL, "stamp": _STAMP},
    MessageKind.POLL: {"stamp": _STAMP},
    MessageKind.INTERRUPT: {"round": Whole, "model": (_MODEL, None), "frames": _FRAMES, "stamp": _STAMP},
    MessageKind.RECEIPT: {
        "session": Whole,
        "accepted": bool,
        "reason": str,
        "resync": bool,
        "taken": Whole,
        "stamp": _STAMP,
    },
    MessageKind.EVALUATE: {"version": Whole, "statistics": Whole, "frames": _FRAMES},  # how many values
    MessageKind.ESTIMATE: {"version": Whole, "frames": _FRAMES},
    MessageKind.RECALL: {},
    MessageKind.BYE: {"reason": str},
}

_OPTIONAL: dict[MessageKind, dict[str, Any]] = {
    # of the upload: a client with an old disk may have used its number for another one; older journals lack it
    MessageKind.HELLO: {"origin": Whole},
    MessageKind.UPDATE: {
        "train_s": Number
    },  # seconds of local training, for predictions; nothing depends on it
}


@dataclass(frozen=True, slots=True)
class Message(Framed):
    """A message that was checked, or is to be sent."""

    kind: MessageKind
    header: Mapping[str, Any] = field(default_factory=dict)
    frames: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every message of a run begins with."""

    run: bytes
    plan: bytes  # its digest

    def pack(self, message: Message) -> list[Buffer]:
        """The parts of a message, frames as they are."""
        header = dict(message.header)
        if "frames" in _SCHEMA[message.kind]:
            header["frames"] = [[name, len(frame)] for name, frame in message.frames.items()]
        text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
        size = len(text).to_bytes(3, "little")
        head = PREFIX.pack(MAGIC, message.kind, size, self.run, self.plan[:16], 0)
        word = zlib.crc32(text, zlib.crc32(head[:40]))
        return [head[:40] + word.to_bytes(4, "little") + text, *message.frames.values()]

    def unpack(self, data: Buffer) -> Message:
        """The message in these bytes; RemoteError for one of another run or plan, or for none."""
        kind, run, plan, text, body = _parts(data)
        if run != self.run:
            raise RemoteError("the message belongs to another run")
        if plan != self.plan[:16]:
            raise RemoteError("the message belongs to another plan")
        return Message(kind, header := _header(kind, text), _frames(header, body))


def peek(data: Buffer) -> tuple[MessageKind, bytes]:
    """Kind and run id of a message, of whatever run it is."""
    kind, run, *_ = _parts(data)
    return kind, run


def own(data: Buffer) -> tuple[MessageKind, dict[str, Any]]:
    """Kind and header of a message, of whatever run it is."""
    kind, _, _, text, _ = _parts(data)
    return kind, _header(kind, text)


def welcomed(data: Buffer) -> tuple[bytes, Message]:
    """The run id, and a WELCOME or BYE, which a client reads before it knows run and plan."""
    kind, run, _, text, _ = _parts(data)
    if kind not in ANSWERS_TO_HELLO:
        raise RemoteError(f"a server must say WELCOME or BYE first; got {kind.name}")
    return run, Message(kind, _header(kind, text))


def greeting(data: Buffer) -> Message:
    """A HELLO, of whatever run and plan the client knows."""
    kind, _, _, text, body = _parts(data)
    if kind is not MessageKind.HELLO or len(body):
        raise RemoteError(f"a client must say hello first; got {kind.name}")
    return Message(kind, _header(kind, text))


def _parts(data: Buffer) -> tuple[MessageKind, bytes, bytes, bytes, memoryview]:
    whole = memoryview(data)
    if len(whole) < PREFIX.size:
        raise RemoteError(f"a message must have {PREFIX.size} bytes or more; got {len(whole)}")
    magic, kind, size, run, plan, word = PREFIX.unpack_from(whole)
    if magic != MAGIC:
        raise RemoteError("no message of this protocol, or of another version of it")
    end = PREFIX.size + int.from_bytes(size, "little")
    if end > min(len(whole), LONGEST_HEADER):
        raise RemoteError("a message whose header is longer than it")
    text = bytes(whole[PREFIX.size : end])
    if zlib.crc32(text, zlib.crc32(whole[:40])) != word:
        raise RemoteError("a message whose check word does not match")
    try:
        return MessageKind(kind), run, plan, text, whole[end:]
    except ValueError:
        raise RemoteError(f"a message of unknown kind {kind}") from None


def _header(kind: MessageKind, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise RemoteError(f"{kind.name}: its header is not JSON") from None
    known, optional = _SCHEMA[kind], _OPTIONAL.get(kind, {})
    more = {name: of for name, of in optional.items() if isinstance(header, dict) and name in header}
    if not fits(header, known | more) or set(header) != set(known | more):
        raise RemoteError(f"{kind.name}: its header does not have the fields of this kind")
    return dict(header)


def _frames(header: Mapping[str, Any], body: memoryview) -> dict[str, bytes]:
    frames, at = {}, 0
    listed = header.get("frames", ())
    if len(listed) > MOST_FRAMES:
        raise RemoteError(f"a message of {len(listed)} frames")
    for entry in listed:
        if len(entry) != 2 or not isinstance(entry[0], str) or not fits(entry[1], Whole) or entry[1] < 0:
            raise RemoteError("a frame must have a name and a length")
        frames[entry[0]] = bytes(body[at : at + entry[1]])
        at += entry[1]
    if at != len(body):
        raise RemoteError(f"a message whose frames have {at} bytes came with {len(body)}")
    return frames


# ---------------------------------------------------------------- the machines' values as messages


def of_update(update: Update, origin: int = 0) -> Message:
    header = {
        "session": update.session,
        "version": update.version,
        "round": update.round,
        "steps": update.steps,
        "a_norm1": update.a_norm1,
        "samples": update.samples,
        "generation": update.generation,
        "origin": origin,
    }
    return Message(MessageKind.UPDATE, header, update.frames)


_OF_THE_WIRE = ("frames", "origin", "train_s")  # in the header of an update, and no fields of it


def to_update(client: int, message: Message) -> Update:
    """The update of this client; which fields are sound, the server's admission says."""
    header = {name: value for name, value in message.header.items() if name not in _OF_THE_WIRE}
    return Update(client=client, frames=message.frames, **header)


def of_metrics(version: int, samples: float, metrics: Mapping[str, float]) -> Message:
    """What a client measured of a model; numbers that are not finite are left out."""
    finite = {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
    return Message(MessageKind.EVALUATED, {"version": version, "samples": samples, "metrics": finite})


def of_sums(version: int, samples: float, sums: Vector | None) -> Message:
    """What a client adds to running statistics; without a frame where it has too few samples."""
    frames = {} if sums is None else {"sums": encode_dense(sums)}
    return Message(MessageKind.ESTIMATED, {"version": version, "samples": samples}, frames)


def to_evaluate(version: int, x: Vector, statistics: Vector | None) -> Message:
    """A model to measure, with its running statistics where it has some."""
    frames, size = {"model": encode_dense(x)}, 0
    if statistics is not None:
        frames["statistics"], size = encode_dense(statistics), statistics.size
    return Message(MessageKind.EVALUATE, {"version": version, "statistics": size}, frames)


def to_model(message: Message, size: int) -> tuple[int, Vector, Vector | None]:
    """Version, model and running statistics in an EVALUATE or ESTIMATE."""
    if "model" not in message.frames:
        raise RemoteError(f"{message.kind.name}: it has no model")
    x, statistics = Dense().decode(message.frames["model"], size), None
    if "statistics" in message.frames:
        statistics = Dense().decode(message.frames["statistics"], message.header.get("statistics", 0))
    return message.header["version"], x, statistics


def model_header(parcel: Parcel) -> dict[str, Any]:
    return {
        "version": parcel.version,
        "round": parcel.round,
        "generation": parcel.generation,
        "clients_per_step": parcel.context.clients_per_step,
        "step_norms": list(parcel.context.step_norms),
        "frames": [],
    }


@dataclass(frozen=True, slots=True)
class SentModel:
    """A model for one client, and its position in the journal, which tells it from the same one sent again."""

    parcel: Parcel
    origin: int


def to_sent_model(message: Message) -> SentModel | None:
    """The model in a MODEL, or in an INTERRUPT that has one."""
    header = message.header if message.kind is MessageKind.MODEL else message.header["model"]
    if header is None:
        return None
    context = Context(header["round"], header["clients_per_step"], tuple(header["step_norms"]))
    known = (header["version"], header["round"], message.frames, context)
    return SentModel(Parcel(*known, generation=header["generation"]), message.header["stamp"][1])


def of_receipt(session: int, receipt: Receipt, stamp: Sequence[int]) -> Message:
    header = {
        "session": session,
        "accepted": receipt.accepted,
        "reason": receipt.reason,
        "resync": receipt.resync,
        "taken": receipt.taken,
        "stamp": list(stamp),
    }
    return Message(MessageKind.RECEIPT, header)


def to_receipt(header: Mapping[str, Any]) -> Receipt:
    return Receipt(header["accepted"], header["reason"], header["resync"], header["taken"])
