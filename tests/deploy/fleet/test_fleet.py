"""The fleet's status of real runs: agrees with their history, is served to Prometheus, and never ends them."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from argparse import ArgumentTypeError
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.deployed import CLIENTS, ROUNDS, TASK, Bed, made

from deploy.pairs import joining, quick_client, run, serving, small, until
from fedpace.cli import main
from fedpace.cli.parser import address
from fedpace.deploy import join_async, serve_async
from fedpace.deploy.fleet.alarms import Surroundings, UpdateAlarms
from fedpace.deploy.fleet.page import LONGEST_REQUEST, MetricsPage
from fedpace.deploy.fleet.reporting import FleetReports
from fedpace.deploy.identity.enrolment import Identities
from fedpace.deploy.websocket.server import WebsocketServer
from fedpace.errors import StorageError
from fedpace.record.fleet import FleetStatus
from record.fleet.test_status import STATUS, samples


def socket_run(folder: Path, reports: FleetReports, **options: Any) -> Any:
    """A run over sockets, with the reports beside it."""

    async def served() -> Any:
        transport = WebsocketServer(CLIENTS, identities=None, limits=small())
        await transport.start("127.0.0.1", 0)
        more = {"wait_for": CLIENTS, "evaluate_every": None} | options
        beside = [*more.pop("beside", ()), reports.beside]
        server = asyncio.ensure_future(
            serve_async(
                made("fedbuff"),
                TASK,
                transport,
                folder,
                clients=CLIENTS,
                rounds=ROUNDS,
                beside=beside,
                **more,
            )
        )
        ends = [quick_client(number, transport.address[1]) for number in range(CLIENTS)]
        clients = []
        for number, end in enumerate(ends):
            end.start()
            clients.append(asyncio.ensure_future(join_async(TASK, end, data=number)))
        result = await server
        await asyncio.gather(*clients)
        return result

    return run(served())


def test_a_run_is_reported_from_its_first_moment_to_its_last(tmp_path: Path) -> None:
    seen: list[FleetStatus] = []
    result = socket_run(tmp_path, FleetReports("night", [seen.append], every_s=0.001))
    first, last = seen[0], seen[-1]
    assert (first.step, first.online) == (0, 0)
    assert [alarm.kind for alarm in first.alarms] == ["nobody_online"]
    assert last.step == last.steps == ROUNDS == len(result.history)
    assert [status.step for status in seen] == sorted(status.step for status in seen)
    assert max(status.online for status in seen) == CLIENTS
    assert {client.state for status in seen for client in status.clients} >= {"training", "offline"}
    assert all(status.active <= status.online <= CLIENTS for status in seen)
    assert sum(client.updates for client in last.clients) == result.counters["taken"]
    assert all(FleetStatus.read(status.to_json()) == status for status in seen)


def test_a_database_that_fails_is_said_once_and_ends_nothing(tmp_path: Path) -> None:
    said: list[str] = []

    def broken(status: FleetStatus) -> None:
        raise StorageError("the run store is gone")

    reports = FleetReports("night", [broken], every_s=0.001, say=said.append)
    assert len(socket_run(tmp_path, reports).history) == ROUNDS
    assert reports.failed >= 2 and len(said) == 1 and "the run store is gone" in said[0]


def test_a_database_that_is_slow_holds_nothing_up(tmp_path: Path) -> None:
    """The first status is being written until the run is over."""
    told: list[int] = []
    at_its_end = [lambda step, coordinator: told.append(step.version)]

    def slow(status: FleetStatus) -> None:
        deadline = time.monotonic() + 60
        while (not told or told[-1] < ROUNDS) and time.monotonic() < deadline:
            time.sleep(0.001)

    result = socket_run(tmp_path, FleetReports("night", [slow], every_s=0.001), told=at_its_end)
    assert len(result.history) == ROUNDS == told[-1] and result.summary["real_seconds"] < 60


def test_silence_and_suspension_are_seen(tmp_path: Path) -> None:
    async def test() -> None:
        limits = small(takeovers_a_minute=1, heartbeat_s=3600.0)
        async with serving(limits=limits) as server:
            async with joining(1, server.address[1]):
                await until(lambda: 1 in server.presences())
                assert not server.presences()[1].is_silent
            two = [joining(2, server.address[1]) for _ in range(3)]
            async with two[0], two[1], two[2]:
                await until(lambda: 2 in server.presences() and server.presences()[2].is_suspended)

    run(test())


def test_a_client_that_is_away_is_silent_until_it_counts_as_gone(tmp_path: Path) -> None:
    seen: list[FleetStatus] = []

    async def script(bed: Bed) -> None:
        await bed.reached(1)
        again = bed.network.disconnected(3)
        while not any(client.client == 3 and client.state == "silent" for client in seen[-1].clients):
            await asyncio.sleep(0.001)
        again()

    reports = FleetReports("night", [seen.append], every_s=0.001)
    algorithm = made("fedavg", clients_per_round=CLIENTS)
    Bed(algorithm, tmp_path, beside=[reports.beside]).run(script)
    assert max(status.silent for status in seen) == 1


# ------------------------------------------------------------ alarms


def test_refused_updates_are_an_alarm_for_a_minute() -> None:
    alarms, counters = UpdateAlarms(), {"taken": 5, "refused": 3, "malformed": 0, "not_finite": 0}
    assert alarms.look(counters, 0.0) == []  # of a server that continues
    assert alarms.look({**counters, "taken": 6, "refused": 4}, 1.0) == []
    [late] = alarms.look({**counters, "taken": 6, "refused": 5}, 2.0)
    assert late.kind == "updates_refused" and late.text == "2 too late; 1 taken in the last minute"
    [bad] = alarms.look({**counters, "taken": 60, "malformed": 1}, 3.0)
    assert bad.text == "1 malformed; 55 taken in the last minute"
    assert alarms.look({**counters, "taken": 60, "malformed": 1}, 64.0) == []


def test_a_disk_and_certificates_are_watched(tmp_path: Path) -> None:
    identities = Identities(tmp_path / "identities")
    identities.create("study", "127.0.0.1:7443", [], datetime.now(UTC) - timedelta(days=350))
    now = 0.0
    watched = Surroundings(tmp_path, 1 << 60, identities, lambda: now)
    disk, server = watched.alarms()
    assert (disk.kind, server.kind) == ("disk_nearly_full", "certificate_expires")
    assert "the server stops at 1,152,921,504,606,846,976" in disk.text
    assert "the certificate of the server expires on" in server.text
    (tmp_path / "identities" / "server.pem").write_text("gone", encoding="utf-8")
    assert watched.alarms() == [disk, server]  # looked at every ten minutes
    now = 601.0
    assert "certificates cannot be read" in watched.alarms()[1].text
    assert Surroundings(tmp_path, 0, None).alarms() == []


# ------------------------------------------------------------ GET /metrics

STUDY = """\
[run]
algorithm = "fedavg(client_lr=0.1, steps=1)"
clients = 2
rounds = 1
[server]
listen = "127.0.0.1:{port}"
"""
CLIENT = """\
from fedpace.tasks import quadratics

def task():
    return quadratics([[0.0], [2.0]])
"""


async def ask(port: int, request: bytes) -> tuple[str, bytes]:
    """The status line and the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        answer = await reader.read()
    except ConnectionError:  # it did not even read all of it
        answer = b""
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0].decode(), body


def test_metrics_answer_get_and_nothing_else() -> None:
    async def test() -> None:
        opened: list[str] = []
        page = MetricsPage("127.0.0.1", 0, opened.append)
        async with page.beside(None):  # type: ignore[arg-type]
            assert opened == [f"http://127.0.0.1:{page.port}/metrics"]
            page.take(STATUS)
            get = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n\r\n".encode()
            line, body = await ask(page.port, get)
            assert line == "HTTP/1.1 200 OK" and samples(body.decode())["fedpace_step", 'run="night/a"'] == 8
            assert (await ask(page.port, get.replace(b"GET", b"HEAD"))) == ("HTTP/1.1 200 OK", b"")
            for request, code in (
                (get.replace(b"GET", b"POST"), 405),
                (get.replace(b"/metrics", b"/"), 404),
                (get.replace(b"127.0.0.1", b"evil.example"), 403),
                (get.replace(b"127.0.0.1", b"10.0.0.1"), 403),
                (get.replace(b"Host", b"Ghost"), 400),
                (get.replace(b"\r\n\r\n", b"\r\nHost: localhost\r\n\r\n"), 400),
                (b"\xff\xfe\r\n\r\n", 400),
            ):
                line, _ = await ask(page.port, request)
                assert line.startswith(f"HTTP/1.1 {code} "), request
            assert await ask(page.port, b"x" * (2 * LONGEST_REQUEST)) == ("", b"")

    run(test())


def test_a_request_that_never_ends_is_dropped() -> None:
    async def test() -> None:
        page = MetricsPage("127.0.0.1", 0, request_s=0.05)
        async with page.beside(None):  # type: ignore[arg-type]
            assert await ask(page.port, b"GET /metrics HTTP/1.1\r\n") == ("", b"")

    run(test())


def test_a_page_for_other_machines_is_asked_by_address_or_name() -> None:
    page = MetricsPage("0.0.0.0", 0)
    assert page._is_here("10.0.0.1:80") and page._is_here("[::1]:80") and page._is_here("localhost")
    assert not page._is_here("evil.example:80")
    assert MetricsPage("fl.example.org", 0)._is_here("fl.example.org:9100")


def test_an_address_that_is_taken_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FEDPACE_HOME", str(tmp_path / "home"))
    (tmp_path / "study").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        text = STUDY.format(port=free.getsockname()[1])
    (tmp_path / "study" / "run.toml").write_text(text, encoding="utf-8")
    (tmp_path / "study" / "client.py").write_text(CLIENT, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ["serve", str(tmp_path / "study"), "--insecure", "--quiet", "--metrics"]
        assert main([*words, str(taken.getsockname()[1])]) == 2
        assert "--metrics must be an address that is free here" in capsys.readouterr().err
        assert main([*words, "99999"]) == 2
        assert "must be PORT or HOST:PORT, a port in 0..65535; got '99999'" in capsys.readouterr().err


def test_a_port_alone_is_on_this_machine() -> None:
    assert address("9100") == ("127.0.0.1", 9100) and address("[::1]:0") == ("::1", 0)
    for wrong in ("", ":9100", "host:", "host:http", "host:65536", "-1"):
        with pytest.raises(ArgumentTypeError, match="must be PORT or HOST:PORT"):
            address(wrong)


def test_a_run_over_sockets_shows_its_metrics_while_it_runs(tmp_path: Path) -> None:
    """The text is asked for at every step, and says at least as many."""
    asked: list[tuple[int, float]] = []
    page, newest = MetricsPage("127.0.0.1", 0), Newest()

    async def look(step: int) -> None:
        get = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
        _, body = await ask(page.port, get)
        asked.append((step, samples(body.decode())["fedpace_step", 'run="night"']))

    looking: list[Any] = []

    def told(step: Any, coordinator: Any) -> None:
        looking.append(asyncio.ensure_future(look(step.version)))

    reports = FleetReports("night", [page.take, newest.take], every_s=0.001)
    socket_run(tmp_path, reports, beside=[page.beside], told=[told])
    assert newest.status is not None and newest.status.step == ROUNDS
    assert samples(page.newest)["fedpace_step", 'run="night"'] == ROUNDS
    assert asked and all(0 <= seen <= ROUNDS for _, seen in asked)
    assert json.loads(replace(newest.status, alarms=()).to_json())["run"] == "night"


class Newest:
    status: FleetStatus | None = None

    def take(self, status: FleetStatus) -> None:
        self.status = status
