"""The journal on a disk: segments, checkpoints between them, and the state of a server after it was killed.

    genesis.safetensors                 what the run is, and its initial model
    segment-000001.journal, ...         the inputs, in order
    checkpoint-000000001234.safetensors the state after that many inputs; the last two are kept

A checkpoint closes a segment. With `keep` all segments stay, and the run can be replayed from its first step; with
`recover` those before the last two checkpoints are deleted. A flush that failed is never tried again: the system may
have dropped what it could not write, and report success the next time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fedpace.deploy.coordinator import Coordinator
from fedpace.deploy.inputs import Input
from fedpace.deploy.journal import segments
from fedpace.deploy.journal.files import AppendFile, FileLayer, write_whole
from fedpace.deploy.journal.segments import Contents
from fedpace.deploy.state import CoordinatorState
from fedpace.errors import CheckpointError, StorageError, require, require_number
from fedpace.record.store import checkpoint
from fedpace.record.store.snapshot import put_server, take_server
from fedpace.untrusted import Whole, fits

_SEGMENT = re.compile(r"segment-(\d{6,})\.journal")
_CHECKPOINT = re.compile(r"checkpoint-(\d{12,})\.safetensors")
MODES = ("keep", "recover")
KEPT = 2  # checkpoints
SHARE = 20  # writing checkpoints takes at most one part in this many of the time


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLimits:
    """How large it may get, and how often a checkpoint shortens the way back."""

    mode: str = "keep"
    every_s: float = 30.0  # between checkpoints
    max_bytes: int = 1 << 40  # of all segments
    reserve_bytes: int = 256 << 20  # of the disk, left free

    def __post_init__(self) -> None:
        require(self.mode in MODES, "journal", self.mode, " or ".join(MODES))
        require_number(self.every_s, "JournalLimits.every_s", low=0, allowed=">= 0 seconds")
        require_number(self.max_bytes, "JournalLimits.max_bytes", above=0, allowed="> 0")
        require_number(self.reserve_bytes, "JournalLimits.reserve_bytes", low=0, allowed=">= 0")


class DiskJournal:
    """The journal of one run; `opened` brings a coordinator to where it ended, and continues."""

    def __init__(
        self,
        files: FileLayer,
        run: bytes,
        limits: JournalLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.files, self.run, self.limits = files, run, limits or JournalLimits()
        self.replayed = 0  # inputs since the checkpoint it continued from
        self._clock, self._saved_s, self._took_s = clock, clock(), 0.0
        self._writer: segments.SegmentWriter | None = None
        self._file: AppendFile | None = None
        self._bytes = 0  # of all segments
        self._appended = self._saved = 0  # positions
        self._broken = ""

    # ------------------------------------------------------------ recovery

    def opened(self, coordinator: Coordinator) -> DiskJournal:
        """Bring a new coordinator to where the journal ends: its last checkpoint, and the inputs after it."""
        position = restore(self.files, coordinator)
        found = self._segments()
        for what in inputs_from(found, position):
            coordinator.handle(what)
            self.replayed += 1
        self._cut_torn_tail(found)
        self._bytes = sum(contents.sound or 0 for _, contents in found)
        self._appended = self._saved = coordinator.state.position
        self._new_segment(_number(found[-1][0]) + 1 if found else 1)
        return self

    def _segments(self) -> list[tuple[str, Contents]]:
        return read_segments(self.files, self.run)

    def _cut_torn_tail(self, found: list[tuple[str, Contents]]) -> None:
        if found and found[-1][1].torn:
            name, contents = found[-1]
            self.files.truncate(name, contents.sound or 0)

    # ------------------------------------------------------------ writing

    def append(self, what: Input) -> None:
        self._require_sound()
        assert self._writer is not None, "it was opened"
        self._writer.add(*what.parts())
        self._appended += 1

    def commit(self) -> None:
        self._require_sound()
        assert self._writer is not None and self._file is not None, "it was opened"
        if not self._writer.parts:
            return
        self._require_room(self._writer.size)
        self._bytes += self._writer.size
        with self._or_broken("written"):
            self._file.write(self._writer.taken())
            self._file.sync()

    def save_if_due(self, coordinator: Coordinator) -> None:
        if self._clock() - self._saved_s >= max(self.limits.every_s, SHARE * self._took_s):
            self.save(coordinator)

    def save(self, coordinator: Coordinator) -> None:
        """A checkpoint, and a new segment after it."""
        position, began = coordinator.state.position, self._clock()
        if position == self._saved:
            return
        require(
            position == self._appended, "a checkpoint", position, f"taken after all {self._appended} inputs"
        )
        tree = take_server(coordinator.server, coordinator.state, CoordinatorState())
        data = checkpoint.encode(tree, {"position": position, "run": self.run.hex()})
        self._require_room(len(data))
        with self._or_broken("checkpointed"):
            self._new_segment(self._last_number() + 1)
            write_whole(self.files, f"checkpoint-{position:012d}.safetensors", data)
            self._delete_old()
        self._saved, self._saved_s = position, self._clock()
        self._took_s = self._saved_s - began

    def close(self, coordinator: Coordinator | None) -> None:
        if coordinator is not None and not self._broken:
            self.save(coordinator)
        if self._file is not None:
            self._file.close()
            self._file = None

    def _new_segment(self, number: int) -> None:
        if self._file is not None:
            self._file.close()
        head = segments.header(self.run, self._appended)
        self._writer = segments.SegmentWriter(segments.first_word(head))
        self._file = self.files.create(f"segment-{number:06d}.journal")
        self._file.write([head])
        self._file.sync()
        self.files.sync_names()
        self._bytes += len(head)

    def _delete_old(self) -> None:
        checkpoints = _named(self.files, _CHECKPOINT)
        for name in checkpoints[:-KEPT]:
            self.files.remove(name)
        kept = checkpoints[-KEPT:]
        if self.limits.mode == "recover" and len(kept) == KEPT:
            self._delete_segments_before(_number(kept[0]))
        self.files.sync_names()

    def _delete_segments_before(self, position: int) -> None:
        for name, contents in self._segments()[:-1]:
            if contents.end <= position:
                self.files.remove(name)
                self._bytes -= contents.size

    def _last_number(self) -> int:
        return _number(_named(self.files, _SEGMENT)[-1])

    # ------------------------------------------------------------ limits and failures

    def _require_room(self, more: int) -> None:
        """Stop while the disk still takes what is left to say."""
        if self._bytes + more > self.limits.max_bytes:
            self._fail(f"the journal has reached its limit of {self.limits.max_bytes:,} bytes")
        free = self.files.free_bytes() - more
        if free < self.limits.reserve_bytes:
            self._fail(
                f"the disk has {max(free, 0):,} bytes left, the reserve is {self.limits.reserve_bytes:,}"
            )

    def _fail(self, why: str) -> None:
        self._broken = f"{why}; the server stops here, and continues from its journal when there is room"
        raise StorageError(self._broken)

    def _or_broken(self, what: str) -> _OrBroken:
        return _OrBroken(self, what)

    def _require_sound(self) -> None:
        if self._broken:
            raise StorageError(self._broken)


class _OrBroken:
    """An error of the file system ends the journal for this process."""

    def __init__(self, journal: DiskJournal, what: str) -> None:
        self.journal, self.what = journal, what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, OSError):
            why = f"the journal could not be {self.what} ({error.strerror}); the server stops here"
            self.journal._broken = why
            raise StorageError(why) from error


# ---------------------------------------------------------------- reading


def read_segments(files: FileLayer, run: bytes) -> list[tuple[str, Contents]]:
    """All segments in order; StorageError where records are missing between them."""
    found = [(name, segments.read(files.read(name), run)) for name in _named(files, _SEGMENT)]
    whole = [(name, contents) for name, contents in found if contents.sound is not None]
    if any(contents.sound is None for _, contents in found[:-1]):
        raise StorageError("the journal is damaged: a segment before the last one has no header of this run")
    for (name, one), (_, other) in zip(whole, whole[1:], strict=False):
        if one.torn or one.end != other.first:
            raise StorageError(f"the journal is damaged: {name} ends after record {one.end} of {other.first}")
    return whole


def inputs_from(found: list[tuple[str, Contents]], position: int) -> Iterator[Input]:
    """The inputs after this many; StorageError if some of them were deleted."""
    if found and found[0][1].first > position:
        raise StorageError(f"the journal begins after input {found[0][1].first}; {position} is before that")
    for _, contents in found:
        for at, record in enumerate(contents.records, start=contents.first):
            if at >= position:
                yield Input.read(record)


def restore(files: FileLayer, coordinator: Coordinator) -> int:
    """Put the newest sound checkpoint back; the position it stands for, 0 without one."""
    for name in reversed(_named(files, _CHECKPOINT)):
        try:
            head, tree = checkpoint.decode(files.read(name))
            if (
                not fits(head, {"position": Whole, "run": str})
                or head["run"] != coordinator.envelope.run.hex()
            ):
                continue
            coordinator.resume(put_server(tree, coordinator.server, CoordinatorState()))
            return coordinator.state.position
        except CheckpointError:
            continue  # the one before it takes a longer way to the same state
    return 0


def _named(files: FileLayer, pattern: re.Pattern[str]) -> list[str]:
    names = [name for name in files.names() if pattern.fullmatch(name)]
    return sorted(names, key=_number)


def _number(name: str) -> int:
    return int(re.findall(r"\d+", name)[0])
