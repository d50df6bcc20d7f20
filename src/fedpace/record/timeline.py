"""Who did what when: every client's time as stretches of work, traffic, waiting and rest."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

from fedpace.errors import ConfigError
from fedpace.record import files
from fedpace.sim.recorder import Activity, Fate

KINDS = ("download", "train", "wait", "upload", "idle")


@dataclass(frozen=True, slots=True)
class Stretch:
    """One client, one kind of activity, from `start` to `end` in virtual seconds.

    `wait`: an update is finished and nobody has asked for it yet. `idle`: nothing to do.
    """

    client: int
    start: float
    end: float
    kind: str
    version: int | None = None  # the model it works on
    session: int | None = None
    fate: str = ""  # what became of the session: consumed | overwritten | dropped | refused
    step: int | None = None  # the server step that consumed it


def stretches(activities: Iterable[Activity], fates: Iterable[Fate], end: float) -> list[Stretch]:
    """The activities in order of client and time, with the gaps between them filled, up to `end`."""
    outcome = {(fate.client, fate.session): fate for fate in fates}
    ordered = sorted(activities, key=lambda a: (a.client, a.start, a.end, KINDS.index(a.kind)))
    return [
        stretch
        for client, own in groupby(ordered, key=lambda activity: activity.client)
        for stretch in _of_one_client(client, list(own), outcome, end)
    ]


def write(rows: Sequence[Stretch], path: str | Path) -> None:
    """CSV, or JSON when the name ends in `.json`."""
    text = _json(rows) if Path(path).suffix == ".json" else _csv(rows)
    files.write(path, text.encode())


def read(path: str | Path) -> list[Stretch]:
    """What `write` wrote; ConfigError for anything else."""
    try:
        text = Path(path).read_text()
        rows = json.loads(text) if Path(path).suffix == ".json" else list(csv.DictReader(io.StringIO(text)))
        if rows:
            return [_parsed(row) for row in rows]
        reason = "it is empty"
    except OSError as error:
        reason = error.strerror or ""
    except (ValueError, KeyError, TypeError):
        reason = "its content is something else"
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
            fate.fate if fate else "",
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
        float(row["start"]),
        float(row["end"]),
        KINDS[KINDS.index(row["kind"])],
        _whole(row["version"]),
        _whole(row["session"]),
        str(row["fate"]),
        _whole(row["step"]),
    )


def _whole(value: Any) -> int | None:
    return None if value in (None, "") else int(value)
