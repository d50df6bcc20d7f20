"""The client's side: a bundle, the machine it lies on, and the way to the server."""

from __future__ import annotations

import email.utils
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedpace import algorithms
from fedpace.deploy.doctor.diagnosis import FAILED, SKIPPED, WARNING, Diagnosis, checked, good
from fedpace.deploy.doctor.dry import Loaded, data_and_session, dry_session
from fedpace.deploy.doctor.machine import clock, disk, versions
from fedpace.deploy.identity.authority import WARN_BEFORE
from fedpace.deploy.identity.bundles import Bundle, read_bundle
from fedpace.deploy.identity.enrolment import split_address
from fedpace.deploy.projects.program import Program
from fedpace.deploy.websocket.addresses import PATH
from fedpace.errors import ConfigError

CONNECT_S = 10.0
LONGEST_ANSWER = 64 << 10
STATE_BYTES = 64 << 20  # of a client's state, at least
TRAINS = algorithms.fedavg(client_lr=1e-6, steps=1)
PUT_RIGHT = "correct client.py: model(), loss and data(client), or task()"


def client_diagnoses(
    path: Path, now: datetime, *, data: str | None, key: str | None, passphrase: str | None
) -> Iterator[Diagnosis]:
    """One after another, as soon as it is known."""
    ask = "ask the study's owner for a new bundle (fedpace deploy enrol, or renew)"
    bundle: list[Bundle] = []

    def certificates() -> Diagnosis:
        bundle.append(read_bundle(path, key, passphrase))
        return _certificates(bundle[0], now, passphrase)

    yield checked("certificates", certificates, ask)
    if bundle:
        answer = _asked(bundle[0], passphrase)
        yield clock(bundle[0].certificate, now, answer.date)
        yield versions()
        yield answer.diagnosis
    else:
        yield Diagnosis("clock", SKIPPED, "without a bundle")
        yield versions()
        yield Diagnosis("ports", SKIPPED, "without a bundle")
    yield checked(
        "disk", lambda: disk(path.parent, STATE_BYTES), "make the folder writable: a client's state is there"
    )
    number = bundle[0].client if bundle else 0
    yield from _data_and_session(data, number)


def _certificates(bundle: Bundle, now: datetime, passphrase: str | None) -> Diagnosis:
    bundle.context(passphrase)
    until, again = bundle.certificate.not_valid_after_utc, "fedpace deploy renew, at the study"
    if until <= now:
        return Diagnosis("certificates", FAILED, f"expired on {until:%Y-%m-%d}", again)
    if until - now <= WARN_BEFORE:
        return Diagnosis("certificates", WARNING, f"expires on {until:%Y-%m-%d}", again)
    return good("certificates", f"client {bundle.client} of {bundle.server} until {until:%Y-%m-%d}")


class _Answer:
    """What the server said, and its clock then."""

    def __init__(self, diagnosis: Diagnosis, date: datetime | None = None) -> None:
        self.diagnosis, self.date = diagnosis, date


def _asked(bundle: Bundle, passphrase: str | None) -> _Answer:
    """Ask without joining: a client that runs under this certificate keeps its connection."""
    host, port = split_address(bundle.server)
    try:
        answer = _http(host, port, bundle.context(passphrase))
    except ssl.SSLCertVerificationError as error:
        text = f"the server at {bundle.server} has an unexpected certificate ({error.verify_message})"
        return _Answer(
            Diagnosis("ports", FAILED, text, "ask the study's owner: a new bundle, or renew --also HOST")
        )
    except ssl.SSLError as error:
        text = f"{bundle.server} does not accept this certificate ({error.reason})"
        return _Answer(
            Diagnosis("ports", FAILED, text, "ask the study's owner to enrol or renew this client")
        )
    except socket.gaierror:
        return _Answer(Diagnosis("ports", FAILED, f"{host} cannot be resolved", "check DNS, or /etc/hosts"))
    except (OSError, ConfigError) as error:
        advice = f"is the server running, and may this machine connect to port {port}?"
        return _Answer(Diagnosis("ports", FAILED, f"{bundle.server} cannot be reached ({error})", advice))
    head, _, body = answer.partition("\r\n\r\n")
    code = (head.split(" ") + [""])[1]
    if code == "403":
        text = f"{bundle.server} refuses this client: {body.strip()[:200]}"
        return _Answer(
            Diagnosis("ports", FAILED, text, "ask the study's owner: renew it, or enrol a new request")
        )
    if code not in ("400", "426"):
        text = f"{bundle.server} is not a fedpace server (it answered {code or 'nothing'})"
        return _Answer(Diagnosis("ports", FAILED, text, "check the address in the bundle"))
    return _Answer(good("ports", f"{bundle.server} is reachable and accepts this client"), _date(head))


def _http(host: str, port: int, context: ssl.SSLContext) -> str:
    """The answer to a request that asks for no WebSocket: the server looks at the certificate, and opens no link."""
    request = f"GET {PATH} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    with (
        socket.create_connection((host, port), CONNECT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        secure.sendall(request)
        answer = b""
        while len(answer) < LONGEST_ANSWER and (more := secure.recv(4096)):
            answer += more
    return answer.decode("latin-1")


def _date(head: str) -> datetime | None:
    for line in head.split("\r\n"):
        name, _, value = line.partition(":")
        if name.lower() == "date":
            try:
                return email.utils.parsedate_to_datetime(value.strip()).astimezone(UTC)
            except ValueError:
                return None
    return None


def _data_and_session(data: str | None, number: int) -> Iterator[Diagnosis]:
    """This machine's data, and one local step on it."""
    if data is None:
        yield Diagnosis("data", SKIPPED, "not checked", "--data client.py, as for `fedpace join`")
        yield Diagnosis("session", SKIPPED, "without data")
        return

    def look(made: list[Loaded]) -> Diagnosis:
        made.append(Program(data).local_task(number))
        task, index = made[0]
        samples = task.samples(index)
        if samples <= 0:
            return Diagnosis("data", FAILED, f"data({number}) has no samples", PUT_RIGHT)
        return good("data", f"{task.layout.size:,} parameters; data({number}) has {samples:g} samples")

    def train(task: Any, index: int) -> Diagnosis:
        return dry_session(TRAINS, task, index, 1, {})

    yield from data_and_session(look, train, advice=PUT_RIGHT, without="without data")
