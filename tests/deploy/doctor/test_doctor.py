"""The doctor: every line is good on a sound study, and each says what is broken and what to do."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest

from deploy.pairs import run as run_bounded
from fedpace import algorithms
from fedpace.cli import main
from fedpace.deploy.doctor.client import client_diagnoses
from fedpace.deploy.doctor.diagnosis import Diagnosis
from fedpace.deploy.doctor.dry import dry_session
from fedpace.deploy.doctor.machine import clock, disk, versions
from fedpace.deploy.doctor.study import study_diagnoses
from fedpace.deploy.identity.authority import new_authority
from fedpace.deploy.identity.enrolment import ADDRESS, Identities
from fedpace.deploy.websocket.server import WebsocketServer
from fedpace.disk.locks import locked
from fedpace.tasks import quadratics

CLIENT = """\
from fedpace.tasks import quadratics

def task():
    return quadratics([[0.0, 1.0], [2.0, -1.0], [5.0, 3.0]], weights=[1, 2, 3])
"""
RUN = """\
[run]
algorithm = "fedbuff(buffer=2, concurrency=2, client_lr=0.1, steps=2)"
clients = 3
rounds = 5
[server]
listen = "{listen}"
address = "{address}"
[journal]
reserve_bytes = {reserve}
"""
PARTS = ["certificates", "clock", "versions", "ports", "disk", "data", "session"]
NOW = datetime.now(UTC)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def study(
    folder: Path,
    *,
    listen: str = "",
    address: str = "",
    reserve: int = 0,
    signed: datetime = NOW,
    client: str = CLIENT,
) -> Path:
    folder.mkdir(exist_ok=True)
    listen = listen or f"127.0.0.1:{free_port()}"
    text = RUN.format(listen=listen, address=address or listen, reserve=reserve)
    (folder / "run.toml").write_text(text, encoding="utf-8")
    (folder / "client.py").write_text(client, encoding="utf-8")
    identities = Identities(folder / "identities")
    identities.create("study", address or listen, [], signed)
    identities.enrol_with_key(0, signed)
    return folder


def found(diagnoses: Iterator[Diagnosis], part: str) -> Diagnosis:
    [diagnosis] = [each for each in diagnoses if each.part == part]
    assert "\n" not in diagnosis.line()
    return diagnosis


def test_a_sound_study_has_seven_good_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = study(tmp_path / "study")
    assert main(["deploy", "doctor", str(place)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["ok", part] for part in PARTS]
    assert "1 client enrolled" in lines[0] and "one step of 2 updates" in lines[6]
    assert main(["deploy", "doctor", str(place / "run.toml")]) == 0


def test_a_broken_study_ends_with_1_and_what_is_none_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = study(tmp_path / "study", reserve=1 << 60)
    assert main(["deploy", "doctor", str(place)]) == 1
    assert "failed   disk" in capsys.readouterr().out
    (place / "run.toml").write_text("[run]\n", encoding="utf-8")
    monkeypatch.chdir(place)
    assert main(["deploy", "doctor"]) == 1
    out = capsys.readouterr().out
    assert "failed   study" in out and out.count("skipped") == 4
    assert main(["deploy", "doctor", str(tmp_path)]) == 2
    assert "a folder with run.toml, or a bundle" in capsys.readouterr().err


# ------------------------------------------------------------ line by line, at the server


def another_authority(place: Path) -> None:
    other = Identities(place / "other")
    other.create("other", "127.0.0.1:7443", [], NOW)
    shutil.copy(place / "other" / "server.pem", place / "identities" / "server.pem")


def readable_key(place: Path) -> None:
    os.chmod(place / "identities" / "authority.key", 0o644)


def another_address(place: Path) -> None:
    (place / "identities" / ADDRESS).write_text("fl.example.org:7443\n", encoding="utf-8")


def no_authority(place: Path) -> None:
    (place / "identities" / "authority.pem").unlink()


def damaged_client(place: Path) -> None:
    (place / "identities" / "clients" / "0.pem").write_text("nothing", encoding="utf-8")


def client_of_another(place: Path) -> None:
    other = Identities(place / "other")
    other.create("other", "127.0.0.1:7443", [], NOW)
    other.enrol_with_key(0, NOW)
    shutil.copy(place / "other" / "clients" / "0.pem", place / "identities" / "clients" / "0.pem")


@pytest.mark.parametrize(
    ("broken", "words", "advice"),
    [
        (
            another_authority,
            "the certificate of the server is not signed by this study's authority",
            "deploy renew --study",
        ),
        (readable_key, "authority.key can be read by others", "chmod 600"),
        (another_address, "is not for fl.example.org", "renew --also fl.example.org"),
        (no_authority, "authority.pem must hold a certificate", "deploy new"),
        (damaged_client, "0.pem must hold a certificate", "deploy renew"),
        (
            client_of_another,
            "the certificate of client 0 is not signed by this study's authority",
            "enrol it again",
        ),
    ],
)
def test_certificates(broken: Callable[[Path], None], words: str, advice: str, tmp_path: Path) -> None:
    place = study(tmp_path / "study")
    broken(place)
    diagnosis = found(study_diagnoses(place, NOW), "certificates")
    assert diagnosis.state == "failed" and words in diagnosis.text and advice in diagnosis.advice


def test_certificates_that_expire(tmp_path: Path) -> None:
    place = study(tmp_path / "study", signed=NOW - timedelta(days=350))
    soon = found(study_diagnoses(place, NOW), "certificates")
    assert soon.state == "warning" and "of the server expires on" in soon.text and "renew" in soon.advice
    over = found(study_diagnoses(place, NOW + timedelta(days=30)), "certificates")
    assert over.state == "failed" and over.text == "the certificate of the server, client 0 has expired"
    Identities(place / "identities").renew_server([], NOW)
    own = found(study_diagnoses(place, NOW + timedelta(days=30)), "certificates")
    assert own.text == "the certificate of client 0 has expired" and "deploy renew 0 --study" in own.advice
    Identities(place / "identities").revoke(0, NOW)
    assert found(study_diagnoses(place, NOW + timedelta(days=30)), "certificates").state == "ok"


def test_the_clock(tmp_path: Path) -> None:
    certificate = new_authority("study", NOW).certificate
    assert clock(certificate, NOW).state == "ok"
    assert clock(certificate, NOW - timedelta(minutes=5)).state == "warning"
    early = clock(certificate, NOW - timedelta(days=1))
    assert early.state == "failed" and "set this machine's clock" in early.advice
    assert clock(certificate, NOW, NOW + timedelta(seconds=3)).text == "3 s from the server's"
    assert clock(certificate, NOW, NOW + timedelta(minutes=2)).state == "warning"
    assert clock(certificate, NOW, NOW + timedelta(hours=2)).state == "failed"
    place = study(tmp_path / "study")
    assert found(study_diagnoses(place, NOW - timedelta(days=400)), "clock").state == "failed"


def test_versions(tmp_path: Path) -> None:
    def without(name: str) -> str:
        if name == "websockets":
            raise PackageNotFoundError(name)
        return "99.0"

    missing = versions(without)
    assert missing.state == "failed" and missing.text == "websockets is missing"
    assert "fedpace[deploy]" in missing.advice
    old = versions(lambda name: "14.2" if name == "websockets" else "99.0")
    assert old.text == "websockets must be 15 or newer; got 14.2"
    place = study(tmp_path / "study")
    (place / "runs" / "old").mkdir(parents=True)
    (place / "runs" / "old" / "genesis.safetensors").write_bytes(b"of another fedpace")
    damaged = found(study_diagnoses(place, NOW), "versions")
    assert damaged.state == "failed" and "genesis.safetensors cannot be read" in damaged.text


def test_ports(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = study(tmp_path / "taken", listen=f"127.0.0.1:{taken.getsockname()[1]}")
        occupied = found(study_diagnoses(place, NOW), "ports")
        assert occupied.state == "failed" and "is in use" in occupied.text and "port" in occupied.advice
        run = place / "runs" / "night"
        run.mkdir(parents=True)
        with locked(run):
            assert "a run of this study is being served" in found(study_diagnoses(place, NOW), "ports").text
    elsewhere = found(study_diagnoses(study(tmp_path / "elsewhere", listen="192.0.2.1:7443"), NOW), "ports")
    assert elsewhere.state == "failed" and "not an address of this machine" in elsewhere.text
    hidden = study(tmp_path / "hidden", listen="127.0.0.1:7443", address="fl.example.org:7443")
    unreachable = found(study_diagnoses(hidden, NOW), "ports")
    assert unreachable.state == "failed" and '"0.0.0.0:7443"' in unreachable.advice


def test_the_disk(tmp_path: Path) -> None:
    assert disk(tmp_path / "not" / "yet", 0).state == "ok"
    low = disk(tmp_path, 1000, lambda place: 3999)
    assert low.state == "warning" and "make room" in low.advice
    assert disk(tmp_path, 1000, lambda place: 999).state == "failed"
    assert disk(tmp_path, 1000, lambda place: 4000).state == "ok"


def test_the_data_function(tmp_path: Path) -> None:
    failing = "def task():\n    raise RuntimeError('the archive is not mounted')\n"
    broken = found(study_diagnoses(study(tmp_path / "a", client=failing), NOW), "data")
    assert broken.state == "failed" and "the archive is not mounted" in broken.text
    elsewhere = """\
from fedpace.tasks import quadratics
asked = []

def task():  # first for the server's model, then for a client's data
    asked.append(1)
    if len(asked) > 1:
        raise FileNotFoundError("scans.h5")
    return quadratics([[0.0], [1.0], [2.0]])
"""
    place = study(tmp_path / "b", client=elsewhere)
    diagnoses = list(study_diagnoses(place, NOW))
    absent = found(iter(diagnoses), "data")
    assert (
        absent.state == "warning" and "scans.h5" in absent.text and "only clients have data" in absent.advice
    )
    assert found(iter(diagnoses), "session").state == "skipped"


class Endless:
    """A task whose training goes on until it is told to stop."""

    def __init__(self) -> None:
        self._task = quadratics([[0.0, 1.0]])
        self.name, self.layout, self.initial = self._task.name, self._task.layout, self._task.initial
        self.samples = self._task.samples

    def train_until(self, request: object, stopped: Callable[[], bool]) -> tuple[np.ndarray, int]:
        while not stopped():
            pass
        return np.zeros(2), 1


def test_the_dry_session(tmp_path: Path) -> None:
    algorithm = algorithms.fedavg(client_lr=0.1, steps=2)
    endless = dry_session(algorithm, Endless(), 0, 2, {}, within_s=0.2)
    assert (
        endless.state == "failed" and endless.text == "no step within 0.2 s by 2 clients" and endless.advice
    )
    broken = CLIENT.replace("return quadratics", "return Broken").replace(
        "\ndef task", "\nclass Broken:\n" + BROKEN + "\ndef task"
    )
    place = study(tmp_path / "study", client=broken)
    session = found(study_diagnoses(place, NOW), "session")
    assert session.state == "failed" and "shapes do not match" in session.text and session.advice


BROKEN = """\
    def __init__(self, *about, **more):
        own = quadratics(*about, **more)
        self.name, self.layout, self.initial, self.samples = own.name, own.layout, own.initial, own.samples
        self.clients = own.clients

    def solve(self, request):
        raise RuntimeError("shapes do not match")
"""


# ------------------------------------------------------------ at a client


def at_client(bundle: Path, now: datetime = NOW, data: str | None = None) -> dict[str, Diagnosis]:
    diagnoses = list(client_diagnoses(bundle, now, data=data, key=None, passphrase=None))
    assert [diagnosis.part for diagnosis in diagnoses] == PARTS
    assert all("\n" not in diagnosis.line() for diagnosis in diagnoses)
    return {diagnosis.part: diagnosis for diagnosis in diagnoses}


def test_a_clients_machine(tmp_path: Path) -> None:
    """Good; then its clock, its certificate, its server and its data fail one after another."""
    identities = Identities(tmp_path / "identities")
    data = tmp_path / "client.py"
    data.write_text(CLIENT, encoding="utf-8")

    async def test() -> None:
        server_port = free_port()
        identities.create("study", f"127.0.0.1:{server_port}", [], NOW)
        bundle = identities.enrol_with_key(1, NOW)
        server = WebsocketServer(3, identities=identities)
        await server.start("127.0.0.1", server_port)
        try:
            fine = await asyncio.to_thread(at_client, bundle, datetime.now(UTC), str(data))
            assert {diagnosis.state for diagnosis in fine.values()} == {"ok"}, fine
            assert "accepts this client" in fine["ports"].text and "s from the server's" in fine["clock"].text
            assert server.presences() == {}  # nobody was connected
            late = await asyncio.to_thread(at_client, bundle, NOW + timedelta(hours=2))
            assert (
                late["clock"].state == "failed" and late["data"].state == late["session"].state == "skipped"
            )
            identities.revoke(1, NOW)
            server.housekeep()
            refused = await asyncio.to_thread(at_client, bundle)
            assert (
                refused["ports"].state == "failed" and "the certificate is revoked" in refused["ports"].text
            )
        finally:
            await server.close()
        gone = await asyncio.to_thread(at_client, bundle)
        assert gone["ports"].state == "failed" and "cannot be reached" in gone["ports"].text
        assert "is the server running" in gone["ports"].advice

    run_bounded(test())


def test_a_server_of_another_study_is_noticed(tmp_path: Path) -> None:
    async def test() -> None:
        port = free_port()
        own, other = Identities(tmp_path / "own"), Identities(tmp_path / "other")
        for identities in (own, other):
            identities.create("study", f"127.0.0.1:{port}", [], NOW)
        bundle = own.enrol_with_key(0, NOW)
        server = WebsocketServer(3, identities=other)
        await server.start("127.0.0.1", port)
        try:
            found_there = await asyncio.to_thread(at_client, bundle)
        finally:
            await server.close()
        assert (
            found_there["ports"].state == "failed" and "unexpected certificate" in found_there["ports"].text
        )

    run_bounded(test())


def test_a_bundle_that_is_broken_or_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    identities = Identities(tmp_path / "identities")
    identities.create("study", f"127.0.0.1:{free_port()}", [], NOW)
    bundle = identities.enrol_with_key(0, NOW)
    assert at_client(bundle, NOW + timedelta(days=340))["certificates"].state == "warning"
    over = at_client(bundle, NOW + timedelta(days=366))["certificates"]
    assert over.state == "failed" and "expired on" in over.text and "renew" in over.advice
    bundle.write_text("no bundle", encoding="utf-8")
    broken = at_client(bundle)
    assert broken["certificates"].state == "failed" and broken["clock"].state == "skipped"
    assert main(["deploy", "doctor", str(bundle)]) == 1
    assert "ask the study's owner for a new bundle" in capsys.readouterr().out


def test_data_of_a_client(tmp_path: Path) -> None:
    missing = at_client(tmp_path / "no.bundle", data=str(tmp_path / "no.py"))
    assert missing["data"].state == "failed" and "client.py must be an existing file" in missing["data"].text
    assert missing["session"].state == "skipped"
    (tmp_path / "client.py").write_text("def task():\n    return 1 / 0\n", encoding="utf-8")
    raising = at_client(tmp_path / "no.bundle", data=str(tmp_path / "client.py"))
    assert (
        raising["data"].text == "ZeroDivisionError: division by zero"
        and "client.py" in raising["data"].advice
    )
