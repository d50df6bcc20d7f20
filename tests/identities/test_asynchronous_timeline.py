"""Who trains when on the three-client bed: the substitute for DeFedAvg's Figure 1, row by row.

The table cuts idle time at the server's steps and counts rounds from 0; a run's own timeline joins idle time and
counts steps from 1.
"""

from __future__ import annotations

from itertools import groupby

import pytest

from beds import LOCAL, run, script, table
from fedpace import algorithms as named
from fedpace.record import Run
from fedpace.record.run.timeline import Stretch

DRAWS = script((1, 2), (2, 3), (3, 3), (1, 3))
RUNS = {
    "fedavg": (named.fedavg(select=DRAWS, clients_per_round=2, **LOCAL), 4),
    "defedavg_niid": (named.defedavg_niid(draws=2, select=DRAWS, **LOCAL), 4),
    "defedavg_iid": (named.defedavg_iid(buffer=2, **LOCAL), 6),
}
Line = tuple[int, float, float, str, int | None, str]


@pytest.fixture(scope="module", params=RUNS)
def finished(request: pytest.FixtureRequest) -> tuple[str, Run]:
    return request.param, run(*RUNS[request.param])


def printed(algorithm: str) -> list[Line]:
    """The table's rows of one algorithm, in our words."""
    rows = []
    for row in table("timeline"):
        if row["algo"] == algorithm:
            client = -1 if row["client"] == "server" else int(row["client"]) - 1
            kind = {"aggregate": "step"}.get(row["activity"], row["activity"])
            version = int(row["model_version"]) if row["model_version"] else None
            fate = row["consumed_in_round"] if kind == "train" else ""
            rows.append((client, float(row["start"]), float(row["end"]), kind, version, fate))
    return joined(sorted(rows, key=lambda line: line[:3]))


def joined(rows: list[Line]) -> list[Line]:
    """Idle stretches that follow each other as one."""
    whole: list[Line] = []
    for (client, kind), group in groupby(rows, key=lambda line: (line[0], line[3])):
        own = list(group)
        whole += [(client, own[0][1], own[-1][2], kind, None, "")] if kind == "idle" else own
    return whole


def ours(stretch: Stretch) -> Line:
    fate = f"r{stretch.step - 1}" if stretch.step is not None else stretch.fate
    return stretch.client, stretch.start, stretch.end, stretch.kind, stretch.version, fate


def test_the_timeline_is_the_published_one(finished: tuple[str, Run]) -> None:
    algorithm, done = finished
    assert [ours(stretch) for stretch in done.timeline()] == printed(algorithm)


PICTURES = {
    "fedavg": ("00...........33...", "000111............", "...111112222233333"),
    "defedavg_niid": ("00.11.22..33...", "000111222.333..", "000001111133333"),
    "defedavg_iid": ("00.1122334455", "0001112224445", "0000022222444"),
}


def test_the_compact_picture(finished: tuple[str, Run]) -> None:
    """One character per second: the version being trained, or a dot."""
    algorithm, done = finished
    for client, picture in enumerate(PICTURES[algorithm]):
        drawn = ["."] * int(done.virtual_seconds)
        for stretch in done.timeline():
            if stretch.client == client and stretch.kind == "train":
                for second in range(int(stretch.start), min(int(stretch.end), len(drawn))):
                    drawn[second] = str(stretch.version)
        assert "".join(drawn) == picture


def test_idle_time_shrinks_from_fedavg_to_defedavg(finished: tuple[str, Run]) -> None:
    """Busy 46.3 %, 77.8 % and 97.4 % of the time until the last step."""
    algorithm, done = finished
    busy = sum(line.busy for line in done.clients()) / 3
    assert busy == pytest.approx(
        {"fedavg": 0.463, "defedavg_niid": 0.778, "defedavg_iid": 0.974}[algorithm], abs=5e-4
    )


def test_what_became_of_the_updates(finished: tuple[str, Run]) -> None:
    algorithm, done = finished
    used, wasted, pending = (
        sum(getattr(line, what) for line in done.clients()) for what in ("used", "wasted", "pending")
    )
    assert (used, wasted, pending) == {
        "fedavg": (7, 0, 0),
        "defedavg_niid": (7, 2, 2),
        "defedavg_iid": (12, 0, 2),
    }[algorithm]
