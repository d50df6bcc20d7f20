"""Letters and answers as Flower's own records, over its own serialisation."""

from __future__ import annotations

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto

from fedpace.deploy.flower.grid import MOST_MESSAGES, of_answer, to_answer, to_letter, to_records
from fedpace.deploy.flower.letters import AnswerStatus, Letter, LetterAnswer
from fedpace.errors import RemoteError

MESSAGES = [bytes(range(256)) * 3, b"", b"\x00last"]


def travelled(records: RecordDict) -> RecordDict:
    return recorddict_from_proto(recorddict_to_proto(records))


def test_an_answer_arrives_as_it_was_sent() -> None:
    sent = LetterAnswer("7-a", 3, AnswerStatus.REFUSED, 2, "no data", MESSAGES)
    assert to_answer(travelled(of_answer(sent))) == sent


def test_messages_of_a_letter_arrive_in_their_order() -> None:
    many = [str(number).encode() for number in range(MOST_MESSAGES)]
    config: dict[str, str | int] = {"link": "7-a", "number": 1}
    assert to_letter(travelled(to_records(config, many))) == Letter("7-a", 1, many)


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (RecordDict(), "must have the records"),
        (to_records({"link": "a"}, []), "status of a message must be a whole number"),
        (to_records({"link": 1, "number": 1, "status": 0, "client": 0, "reason": ""}, []), "must be text"),
        (to_records({"link": "a", "number": 1, "status": 9}, []), "unknown status"),
        (
            RecordDict(
                {
                    "fedpace": ConfigRecord({"link": "a", "number": 1}),
                    "messages": ArrayRecord(
                        {f"{at:06d}": Array("uint8", (1,), "x", b"x") for at in range(MOST_MESSAGES + 1)}
                    ),
                }
            ),
            "at most 64",
        ),
    ],
)
def test_what_is_no_answer_is_refused(records: RecordDict, reason: str) -> None:
    with pytest.raises(RemoteError, match=reason):
        to_answer(records)
