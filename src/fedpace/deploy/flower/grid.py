"""Letters and answers as Flower's messages: numbers and texts in a ConfigRecord, bytes in an ArrayRecord."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flwr.app import Array, ArrayRecord, ConfigRecord, MessageType, RecordDict
from flwr.app import Message as FlowerMessage
from flwr.serverapp import Grid

from fedpace.deploy.flower.letters import AnswerStatus, Letter, LetterAnswer, Undelivered
from fedpace.errors import RemoteError

CONFIG, BYTES = "fedpace", "messages"
STYPE = "fedpace.messages"
MOST_MESSAGES, LONGEST_TEXT = 64, 500  # of one answer
UNREADABLE = -1  # the code of a reply that makes no sense; Flower has none for it


class GridPost:
    """A Grid as a post office. One message is pushed per call: for a node that is gone Flower leaves the id out."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def nodes(self) -> set[int]:
        return set(self.grid.get_node_ids())

    def push(self, node: int, letter: Letter) -> str | None:
        config: dict[str, str | int] = {"link": letter.link, "number": letter.number}
        message = FlowerMessage(to_records(config, letter.messages), node, MessageType.TRAIN)
        return next(iter(self.grid.push_messages([message])), None) or None

    def pull(self, letters: Iterable[str]) -> dict[str, LetterAnswer | Undelivered]:
        replies = self.grid.pull_messages(list(letters))
        return {reply.metadata.reply_to_message_id: _outcome(reply) for reply in replies}


def _outcome(reply: FlowerMessage) -> LetterAnswer | Undelivered:
    if reply.has_error():
        return Undelivered(reply.error.code, reply.error.reason or "no reason was given")
    try:
        return to_answer(reply.content)
    except RemoteError as error:
        return Undelivered(UNREADABLE, str(error))


def of_answer(answer: LetterAnswer) -> RecordDict:
    config: dict[str, str | int] = {
        "link": answer.link,
        "number": answer.number,
        "status": int(answer.status),
        "client": answer.client,
        "reason": answer.reason,
    }
    return to_records(config, answer.messages)


def to_answer(records: RecordDict) -> LetterAnswer:
    config, messages = _parts(records)
    try:
        status = AnswerStatus(_whole(config, "status"))
    except ValueError:
        raise RemoteError("an answer of unknown status") from None
    client, reason = _whole(config, "client"), _text(config, "reason")
    return LetterAnswer(_text(config, "link"), _whole(config, "number"), status, client, reason, messages)


def to_letter(records: RecordDict) -> Letter:
    config, messages = _parts(records)
    return Letter(_text(config, "link"), _whole(config, "number"), messages)


def to_records(config: dict[str, str | int], messages: Sequence[bytes]) -> RecordDict:
    """Names of arrays sort in the order of the messages."""
    arrays = {f"{at:06d}": Array("uint8", (len(m),), STYPE, bytes(m)) for at, m in enumerate(messages)}
    return RecordDict({CONFIG: ConfigRecord(dict(config)), BYTES: ArrayRecord(arrays)})


def _parts(records: RecordDict) -> tuple[ConfigRecord, list[bytes]]:
    config, arrays = records.get(CONFIG), records.get(BYTES)
    if not isinstance(config, ConfigRecord) or not isinstance(arrays, ArrayRecord):
        raise RemoteError(f"a message must have the records {CONFIG} and {BYTES}; got {sorted(records)[:4]}")
    if len(arrays) > MOST_MESSAGES:
        raise RemoteError(f"a message must carry at most {MOST_MESSAGES} of ours; got {len(arrays)}")
    return config, [arrays[name].data for name in sorted(arrays)]


def _whole(config: ConfigRecord, name: str) -> int:
    value = config.get(name)
    if type(value) is not int:
        raise RemoteError(f"{name} of a message must be a whole number; got {value!r:.40}")
    return value


def _text(config: ConfigRecord, name: str) -> str:
    value = config.get(name)
    if not isinstance(value, str):
        raise RemoteError(f"{name} of a message must be text; got {value!r:.40}")
    return value[:LONGEST_TEXT]
