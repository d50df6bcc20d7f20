"""Updates and requests for a model that come together, as they do from a client that trains continuously."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.deploy.deployed import Bed, made

from fedpace.deploy.inputs import Input, InputKind, with_dispatches
from fedpace.deploy.messages import Message, MessageKind

UPDATE, WANT, HELLO = (
    Input(InputKind.MESSAGE, 2.0, 1, b"", Message(kind))
    for kind in (MessageKind.UPDATE, MessageKind.WANT, MessageKind.HELLO)
)
DISPATCH = Input(InputKind.DISPATCH, 2.0)


@pytest.mark.parametrize(
    ("happened", "batch"),
    [
        ([UPDATE, WANT], [UPDATE, DISPATCH, WANT, DISPATCH]),
        ([WANT, UPDATE], [WANT, UPDATE, DISPATCH]),
        ([UPDATE, HELLO, WANT, WANT], [UPDATE, HELLO, DISPATCH, WANT, WANT, DISPATCH]),
        ([HELLO, WANT], [HELLO, WANT, DISPATCH]),
    ],
)
def test_a_request_that_follows_an_update_is_answered_after_its_step(
    happened: list[Input], batch: list[Input]
) -> None:
    made_of = [each.message and each.message.kind for each in with_dispatches(happened, 2.0)]
    assert made_of == [each.message and each.message.kind for each in batch]
    assert [each.kind for each in with_dispatches(happened, 2.0)] == [each.kind for each in batch]


def test_a_client_whose_update_made_a_step_trains_on_its_model_next(tmp_path: Path) -> None:
    """As under a virtual clock. Every update is a step here, so that no client may start from an older one."""
    bed = Bed(made("defedavg_iid", buffer=1), tmp_path, rounds=40)
    history = bed.run().history
    stepped: dict[int, int] = {}  # by client: the version that its last update made
    for step in history:
        (client,), (staleness,) = step.clients, step.staleness
        assert step.version - 1 - staleness >= stepped.get(client, 0), step
        stepped[client] = step.version
    assert len(stepped) > 1
