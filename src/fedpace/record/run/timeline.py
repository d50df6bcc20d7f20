"""Client timeline: every client's time as intervals of training, transfer, waiting and idling; the server's steps."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

from fedpace.disk import files
from fedpace.errors import ConfigError
from fedpace.sim.observer import Activity, Fate, StepRecord
from fedpace.untrusted import read_regular

KINDS = ("download", "train", "wait", "upload", "idle", "step")
UNUSED = ("overwritten", "dropped", "refused")  # fates of unused work
SERVER = -1


@dataclass(frozen=True, slots=True)
class Stretch:
    """One client, one kind of activity, from `start` to `end` in virtual seconds.

    `wait`: an update is finished and not yet polled. `idle`: nothing to do. `step`: the server
    (client -1) made `version` at this instant.
    """

    client: int
    start: float
    end: float
    kind: str
    version: int | None = None  # the model it works on
    session: int | None = None
    fate: str = ""  # outcome of the session: consumed | overwritten | dropped | refused | pending
    step: int | None = None  # the server step that consumed it

    @property
    def staleness(self) -> int | None:
        """Server steps between the starting model and the use of the update."""
        return None if self.step is None or self.version is None else max(0, self.step - 1 - self.version)


def stretches(
    activities: Iterable[Activity], fates: Iterable[Fate], steps: Sequence[StepRecord]
) -> list[Stretch]:
    """The server's steps; then the activities by client and time, gaps filled until the last step."""
    outcome = {(fate.client, fate.session): fate for fate in fates}
    # at one instant an update goes before the next model comes
    ordered = sorted(activities, key=lambda a: (a.client, a.start, a.kind != "upload", a.end))
    end = steps[-1].virtual_seconds if steps else 0.0
    marked = steps if ordered else ()  # without traces there is no timeline
    rows = [Stretch(SERVER, s.virtual_seconds, s.virtual_seconds, "step", s.version) for s in marked]
    for client, own in groupby(ordered, key=lambda activity: activity.client):
        rows += _of_one_client(client, list(own), outcome, end)
    return rows


def write(rows: Sequence[Stretch], path: str | Path) -> None:
    """CSV, or JSON when the name ends in `.json`."""
    text = _json(rows) if Path(path).suffix == ".json" else _csv(rows)
    files.write(path, text.encode())


def read(path: str | Path) -> list[Stretch]:
    """What `write` wrote; ConfigError for anything else."""
    try:
        text = read_regular(path).decode()
        rows = json.loads(text) if Path(path).suffix == ".json" else list(csv.DictReader(io.StringIO(text)))
        if rows:
            return [_parsed(row) for row in rows]
        reason = "it is empty"
    except OSError as error:
        reason = error.strerror or ""
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, csv.Error):
        reason = "its content is not a timeline"
    raise ConfigError(f"timeline must be a file that --timeline wrote ({reason}); got {str(path)!r}")


def _of_one_client(
    client: int, own: Sequence[Activity], outcome: dict[tuple[int, int], Fate], end: float
) -> Iterator[Stretch]:
    now, finished = 0.0, None  # `finished`: the session whose update is still here
    for activity in own:
        if activity.start > now:
            waits = activity.kind == "upload" and activity.session == finished
            yield Stretch(client, now, activity.start, "wait" if waits else "idle")
        finished = activity.session if activity.kind == "train" else None
        fate = outcome.get((client, activity.session))
        yield Stretch(
            client,
            activity.start,
            activity.end,
            activity.kind,
            activity.version,
            activity.session,
            fate.fate if fate else "pending",
            fate.version if fate else None,
        )
        now = max(now, activity.end)
    if end > now:
        yield Stretch(client, now, end, "idle")


def _csv(rows: Sequence[Stretch]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, [field.name for field in fields(Stretch)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return out.getvalue()


def _json(rows: Sequence[Stretch]) -> str:
    return "[\n" + ",\n".join(files.to_json(asdict(row)) for row in rows) + "\n]\n"


def _parsed(row: Mapping[str, Any]) -> Stretch:
    return Stretch(
        int(row["client"]),
        _seconds(row["start"]),
        _seconds(row["end"]),
        KINDS[KINDS.index(row["kind"])],
        _whole(row["version"]),
        _whole(row["session"]),
        str(row["fate"]),
        _whole(row["step"]),
    )


def _seconds(value: Any) -> float:
    seconds = float(value)
    if not 0 <= seconds < math.inf:
        raise ValueError("no time")
    return seconds


def _whole(value: Any) -> int | None:
    return None if value in (None, "") else int(value)
