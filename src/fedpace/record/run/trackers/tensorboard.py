"""TensorBoard: event files in a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from fedpace.record.run.trackers.values import Values, now
from fedpace.sim.observer import Observer, StepRecord
from fedpace.vector import Vector


class TensorBoard(Observer):
    """One folder per run in `folder`; `tensorboard --logdir FOLDER` shows them."""

    def __init__(self, folder: str | Path, name: str, config: Mapping[str, str] | None = None) -> None:
        self._writer = EventFileWriter(str(Path(folder) / name))
        self._values = Values()
        for key, text in (config or {}).items():
            self._writer.add_event(Event(wall_time=now(), summary=text_pb(f"configuration/{key}", text)))

    def begun(self, metrics: Mapping[str, float]) -> None:
        self._add(0, self._values.initial(metrics))

    def recorded(self, record: StepRecord, x: Vector) -> None:
        self._add(record.version, self._values.of(record))

    def _add(self, step: int, values: Mapping[str, float]) -> None:
        tagged = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._writer.add_event(Event(wall_time=now(), step=step, summary=Summary(value=tagged)))

    def resumed(self, steps: Sequence[StepRecord]) -> None:
        """Later events of the same steps replace those that were written before the interruption."""
        self._values.resume(steps)
        start = SessionLog(status=SessionLog.START)
        self._writer.add_event(Event(wall_time=now(), step=len(steps) + 1, session_log=start))

    def close(self) -> None:
        self._writer.close()
