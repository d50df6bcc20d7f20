"""A fleet's status in the store and as Prometheus text: what goes in comes out, what is damaged is said to be."""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedpace.errors import StorageError
from fedpace.record import fleet
from fedpace.record.fleet import ClientStatus, FleetAlarm, FleetStatus
from fedpace.record.fleet.prometheus import rendered
from fedpace.record.store.store import DATABASE, Store
from fedpace.record.store.tables import SCHEMA

TRAINING = ClientStatus(0, "training", 7, 0.25, 2**40, 17, 3, 1, 1.7e9)
UNKNOWN = ClientStatus(5, "offline", None, None, 0, 0, 0, 0, None)
STATUS = FleetStatus(
    time=1.7e9 + 0.5,
    run="night/a",
    step=8,
    steps=None,
    step_rate=0.125,
    online=1,
    active=1,
    silent=0,
    bytes_up=2**40,
    bytes_down=17,
    refused={'a "reason"\nof \\ two lines': 2},
    clients=(TRAINING, UNKNOWN),
    alarms=(FleetAlarm("disk_nearly_full", "3 bytes"),),
)


def begun(store: Store, name: str) -> int:
    about: dict[str, Any] = {"algorithm": "a", "task": "t", "seed": 0, "rounds": 1, "fingerprint": "f"}
    return store.begin(name=name, experiment={}, **about).id


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def put(store: Store, name: str, text: object) -> None:
    with sqlite3.connect(store.home / DATABASE) as connection:
        changed = connection.execute(
            "UPDATE fleet SET status = ? WHERE run = (SELECT id FROM runs WHERE name = ?)", (text, name)
        )
        assert changed.rowcount == 1
    connection.close()


def test_the_json_has_the_agreed_fields() -> None:
    plain = json.loads(STATUS.to_json())
    assert list(plain) == [
        *(
            "time",
            "run",
            "step",
            "steps",
            "step_rate",
            "online",
            "active",
            "silent",
            "bytes_up",
            "bytes_down",
        ),
        *("refused", "clients", "alarms"),
    ]
    assert list(plain["clients"][0]) == [
        *("client", "state", "version", "round_trip", "bytes_up", "bytes_down", "updates", "refused"),
        "last_seen",
    ]
    assert plain["alarms"] == [{"kind": "disk_nearly_full", "text": "3 bytes"}]
    assert FleetStatus.read(STATUS.to_json()) == STATUS
    assert FleetStatus.read(json.dumps({**plain, "of a newer fedpace": 1})) == STATUS


def test_a_status_is_replaced_and_goes_with_its_run(store: Store) -> None:
    run, other = begun(store, "night/a"), begun(store, "other")
    assert fleet.latest(store, "night/a") is None and fleet.latest(store, "nobody") is None
    fleet.write(store, run, STATUS)
    later = replace(STATUS, step=9, clients=())
    fleet.write(store, run, later)
    mine = replace(STATUS, run="other")
    fleet.write(store, other, mine)
    assert fleet.latest(store, "night/a") == later
    assert fleet.all_latest(store) == [later, mine]
    store.delete("night/a")
    assert fleet.all_latest(store) == [mine]


def test_a_store_without_the_table_gets_one(store: Store) -> None:
    """As fedpace before this table wrote it; its schema stays, so that an older fedpace still opens it."""
    run = begun(store, "night/a")
    with sqlite3.connect(store.home / DATABASE) as connection:
        connection.execute("DROP TABLE fleet")
        [schema] = connection.execute("SELECT schema FROM fedpace").fetchall()
    connection.close()
    newer = Store(store.home)
    fleet.write(newer, run, STATUS)
    assert fleet.latest(newer, "night/a") == STATUS and schema == (SCHEMA,)


CLIENT = json.loads(STATUS.to_json())["clients"][0]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"time": "now"}, "time is 'now'"),
        ({"time": float("nan")}, "time is nan"),
        ({"time": -1}, "time is -1"),
        ({"step": 1.5}, "step is 1.5"),
        ({"step": True}, "step is True"),
        ({"step": 2**63}, "step is 9223372036854775808"),
        ({"steps": -1}, "steps is -1"),
        ({"step_rate": float("inf")}, "step_rate is inf"),
        ({"online": None}, "online is None"),
        ({"bytes_up": -1}, "bytes_up is -1"),
        ({"run": "../up"}, "run is '../up'"),
        ({"run": "another"}, "'night/a' has that of 'another'"),
        ({"refused": {"late": -1}}, "refused is"),
        ({"refused": {"x" * 1001: 1}}, "refused is"),
        ({"refused": dict.fromkeys(map(str, range(65)), 1)}, "refused is"),
        ({"refused": [1]}, "refused is"),
        ({"clients": {}}, "clients is {}"),
        ({"clients": [3]}, "clients is"),
        ({"clients": [{**CLIENT, "state": "asleep"}]}, r"clients\[0\].state is 'asleep'"),
        ({"clients": [{**CLIENT, "client": -1}]}, r"clients\[0\].client is -1"),
        ({"clients": [{**CLIENT, "round_trip": "1"}]}, r"clients\[0\].round_trip is '1'"),
        ({"clients": [CLIENT, CLIENT]}, "one of them twice"),
        ({"clients": [{"client": 1}]}, r"clients\[0\].state is None"),
        ({"alarms": [{"kind": "<script>", "text": ""}]}, r"alarms\[0\] is"),
        ({"alarms": [{"kind": "nobody_online", "text": "x" * 1001}]}, r"alarms\[0\] is"),
        ({"alarms": [{"kind": "nobody_online", "text": ""}] * 65}, "alarms is 65"),
    ],
)
def test_a_row_that_is_no_status_is_refused(store: Store, changed: dict[str, Any], words: str) -> None:
    fleet.write(store, begun(store, "night/a"), STATUS)
    put(store, "night/a", json.dumps({**json.loads(STATUS.to_json()), **changed}))
    with pytest.raises(StorageError, match=words) as raised:
        fleet.latest(store, "night/a")
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 500
    assert fleet.all_latest(store) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, b"\xff\x00", 3])
def test_a_row_that_is_no_json_is_refused(store: Store, text: object) -> None:
    fleet.write(store, begun(store, "night/a"), STATUS)
    put(store, "night/a", text)
    with pytest.raises(StorageError, match="damaged fleet status: the record is"):
        fleet.latest(store, "night/a")


# ------------------------------------------------------------ Prometheus

LABEL = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"(fedpace_[a-z_]+)\{{({LABEL}(?:,{LABEL})*)\}} ([-+0-9.e]+)")


def samples(text: str) -> dict[tuple[str, str], float]:
    """The text, line by line: every metric is described once, before its samples, which are together."""
    found: dict[tuple[str, str], float] = {}
    described: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            kind = next(lines)
            assert re.fullmatch(rf"# TYPE {name} (gauge|counter)", kind), kind
            assert name.endswith("_total") == kind.endswith("counter") and name not in described
            described.append(name)
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None and sample[1] == described[-1], line
        assert (sample[1], sample[2]) not in found
        found[sample[1], sample[2]] = float(sample[3])
    assert text.endswith("\n")
    return found


def test_the_text_for_prometheus_says_the_same() -> None:
    text = rendered([STATUS, replace(STATUS, run="b", steps=12, refused={})])
    found = samples(text)
    one = 'run="night/a"'
    assert found["fedpace_status_time_seconds", one] == STATUS.time
    assert found["fedpace_step", one] == 8 and found["fedpace_step_rate", one] == 0.125
    assert ("fedpace_steps_planned", one) not in found and found["fedpace_steps_planned", 'run="b"'] == 12
    assert found["fedpace_bytes_total", f'{one},direction="up"'] == 2**40
    assert found["fedpace_clients", f'{one},state="training"'] == 1
    assert sum(value for (name, _), value in found.items() if name == "fedpace_clients") == 4
    assert found["fedpace_refused_total", f'{one},reason="a \\"reason\\"\\nof \\\\ two lines"'] == 2
    assert found["fedpace_client_round_trip_seconds", f'{one},client="0"'] == 0.25
    assert ("fedpace_client_round_trip_seconds", f'{one},client="5"') not in found
    assert found["fedpace_alarms", f'{one},kind="disk_nearly_full"'] == 1
    assert found["fedpace_alarms", f'{one},kind="nobody_online"'] == 0
    assert samples(rendered([])) == {}
