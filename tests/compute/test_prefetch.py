"""The order of pinning, copying and waiting, with a stream, events and tensors that note what is done with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fedpace.compute.device import Accelerator
from fedpace.tasks.images_last import as_given
from fedpace.tasks.placed import Sent, session_batches

LOG: list[str] = []


class Noted(torch.Tensor):
    """A tensor of one number, which names its batch."""

    @property
    def batch(self) -> int:
        return int(self.as_subclass(torch.Tensor)[0])

    def pin_memory(self, *_: Any) -> Noted:
        LOG.append(f"pin {self.batch}")
        return self

    def to(self, *place: Any, **how: Any) -> Noted:
        assert how == {"non_blocking": True}
        LOG.append(f"copy {self.batch}")
        return self

    def record_stream(self, stream: Any) -> None:
        LOG.append(f"keep {self.batch} for {stream}")


class Stream:
    """A queue of copies; its events are numbered."""

    def __init__(self, *_: Any, name: str = "copies") -> None:
        self.name, self.events = name, 0

    def __str__(self) -> str:
        return self.name

    def __enter__(self) -> None:
        LOG.append(f"on {self.name}")

    def __exit__(self, *_: object) -> None: ...

    def record_event(self) -> str:
        self.events += 1
        LOG.append(f"event {self.events - 1}")
        return f"event {self.events - 1}"

    def wait_event(self, event: str) -> None:
        LOG.append(f"wait for {event}")

    def wait_stream(self, stream: Stream) -> None:
        LOG.append(f"wait for all {stream}")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Accelerator:
    now = Stream(name="computation")
    monkeypatch.setattr(torch, "Stream", Stream)
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda device: now)
    LOG.clear()
    return Accelerator("cuda:0")


def test_a_batch_waits_for_its_own_copy_and_the_next_is_queued_before(gpu: Accelerator) -> None:
    """Pinned, then copied on the stream of copies, one batch ahead; the computation waits for one event."""
    batches = [(torch.tensor([k]).as_subclass(Noted), None) for k in range(3)]

    class Stored:
        def __len__(self) -> int:
            return 3

        def take(self, positions: Any) -> Any:
            return batches[int(positions[0])]

        def fingerprint(self) -> str:
            return ""

    order, ends = np.arange(3), np.array([1, 2, 3])
    for k, _ in enumerate(session_batches(Sent(gpu, Stored()), order, ends, as_given)):
        LOG.append(f"compute {k}")

    def sent(k: int) -> list[str]:
        return ["on copies", f"pin {k}", f"copy {k}", f"event {k}"]

    def used(k: int) -> list[str]:
        return [f"wait for event {k}", f"keep {k} for computation", f"compute {k}"]

    expected = [*sent(0), *sent(1), *used(0), *sent(2), *used(1), *used(2)]
    assert expected == LOG


def test_updates_come_back_through_one_pinned_buffer(
    gpu: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned, empty = list[bool](), torch.empty

    def noted(*shape: Any, pin_memory: bool = False, **kind: Any) -> torch.Tensor:
        pinned.append(pin_memory)
        return empty(*shape, **kind)

    monkeypatch.setattr(torch, "empty", noted)
    first, second = (gpu.download(torch.full((4,), value)) for value in (1.0, 2.0))
    assert pinned == [True]
    assert first.tolist() == [1.0] * 4 and second.tolist() == [2.0] * 4
