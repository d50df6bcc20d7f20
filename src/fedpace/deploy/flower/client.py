"""A ClientApp's part: which client a node is, where its state lies, and its answer to a letter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedpace.deploy.flower.answering import Answering, answered
from fedpace.deploy.flower.brief import BriefParticipant
from fedpace.deploy.flower.known import KnownProgram
from fedpace.deploy.flower.letters import AnswerStatus, Letter, LetterAnswer
from fedpace.deploy.flower.places import client_place
from fedpace.deploy.memory import ClientMemory
from fedpace.errors import ConfigError


def answer(letter: Letter, program: Path, node: Mapping[str, Any], run: Mapping[str, Any]) -> LetterAnswer:
    """The answer of the node with this configuration; `program`: its client.py."""
    try:
        client, folder = client_number(node), client_place(node, run)
    except ConfigError as error:
        return LetterAnswer(letter.link, letter.number, AnswerStatus.REFUSED, reason=str(error))

    def make(memory: ClientMemory) -> Answering:
        known = KnownProgram(program, client, memory.path.parent, letter.link.partition("-")[0])
        participant = BriefParticipant(known, known.data, known.owner())
        return Answering(participant, memory, known.task)

    return answered(letter, client, folder, make)


def client_number(node: Mapping[str, Any]) -> int:
    """What the SuperNode's owner says, or the partition of Flower's simulation."""
    number = node.get("client", node.get("partition-id"))
    if type(number) is not int or number < 0:
        raise ConfigError(
            f"a SuperNode must say which client it is, as in --node-config 'client=0'; got {number!r}"
        )
    return number
