"""The server's side: a study's folder."""

from __future__ import annotations

import errno
import socket
import stat
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography import x509

from fedpace.deploy import genesis
from fedpace.deploy.doctor.diagnosis import FAILED, SKIPPED, WARNING, Diagnosis, checked, good
from fedpace.deploy.doctor.dry import Loaded, data_and_session, dry_session
from fedpace.deploy.doctor.machine import clock, disk, versions
from fedpace.deploy.identity.authority import address_name
from fedpace.deploy.identity.enrolment import (
    AUTHORITY,
    AUTHORITY_KEY,
    CLIENTS,
    REVOKED,
    SERVER,
    Identities,
    fingerprint,
    split_address,
)
from fedpace.deploy.identity.revocation import RevocationList
from fedpace.deploy.journal.files import DiskFiles
from fedpace.deploy.projects.serving import RUNS, StudyFolder
from fedpace.deploy.projects.templates import IDENTITIES
from fedpace.deploy.websocket.addresses import is_loopback
from fedpace.disk.locks import is_locked
from fedpace.errors import ConfigError
from fedpace.untrusted import read_regular

ASK_AGAIN = "correct run.toml or client.py; `fedpace deploy new` writes ones that work"


def study_diagnoses(folder: Path, now: datetime) -> Iterator[Diagnosis]:
    """One after another, as soon as it is known."""
    identities = Identities(folder / IDENTITIES)
    renew = f"fedpace deploy renew --study {folder}, or start over with fedpace deploy new"
    yield checked("certificates", lambda: _certificates(identities, folder, now), renew)
    yield checked("clock", lambda: clock(_certificate(identities.folder / SERVER), now), renew)
    yield checked(
        "versions", lambda: _versions(folder), "read it with the fedpace that wrote it, or move it away"
    )
    try:
        study = StudyFolder.read(folder)
    except ConfigError as error:
        yield Diagnosis("study", FAILED, str(error), ASK_AGAIN)
        for part in ("ports", "disk", "data", "session"):
            yield Diagnosis(part, SKIPPED, "the study cannot be read")
        return
    yield checked("ports", lambda: _ports(study), "choose another [server] listen in run.toml")
    reserve = study.settings.journal.reserve_bytes
    yield checked("disk", lambda: disk(study.settings.folder / RUNS, reserve), "make the folder writable")
    yield from _data_and_session(study)


def _data_and_session(study: StudyFolder) -> Iterator[Diagnosis]:
    """The server needs the model; data of clients may well be elsewhere."""

    def look(made: list[Loaded]) -> Diagnosis:
        server = study.program.server_task()
        parameters = server.layout.size
        try:
            made.append(study.program.local_task(0))
            samples = made[0][0].samples(made[0][1])
        except Exception as error:
            text = f"{parameters:,} parameters; data(0) raised {type(error).__name__}: {error}"
            return Diagnosis("data", WARNING, text, "fine if only clients have data")
        return good("data", f"{parameters:,} parameters; data(0) has {samples:g} samples")

    def train(task: Any, index: int) -> Diagnosis:
        return dry_session(study.algorithm, task, index, study.settings.clients, study.program.rules)

    yield from data_and_session(look, train, advice=ASK_AGAIN, without="no data on this machine to train on")


# ------------------------------------------------------------ parts


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificates(read_regular(path, 1 << 20))[0]
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} must hold a certificate ({error})") from None


def _certificates(identities: Identities, folder: Path, now: datetime) -> Diagnosis:
    """Authority, server and clients: signed, valid, secret, and for the address that clients use."""
    authority, server = (_certificate(identities.folder / name) for name in (AUTHORITY, SERVER))
    revoked = RevocationList(identities.folder / REVOKED).revoked
    issued = {
        f"client {file.stem}": own
        for file in sorted((identities.folder / CLIENTS).glob("*.pem"))
        if fingerprint(own := _certificate(file)) not in revoked
    }
    for name, own in {"the server": server, **issued}.items():
        try:
            own.verify_directly_issued_by(authority)
        except Exception as error:
            again = "enrol it again" if name in issued else f"fedpace deploy renew --study {folder}"
            text = f"the certificate of {name} is not signed by this study's authority ({error or 'another signature'})"
            return Diagnosis("certificates", FAILED, text, again)
    identities.context(lambda reason: None)
    over = [
        name
        for name, own in {"the authority": authority, "the server": server, **issued}.items()
        if own.not_valid_after_utc <= now
    ]
    if over:
        number = over[0].removeprefix("client ") if over[0] in issued else ""
        renew = " ".join(filter(None, ["fedpace deploy renew", number, f"--study {folder}"]))
        return Diagnosis("certificates", FAILED, f"the certificate of {', '.join(over)} has expired", renew)
    return _secrecy(identities, server) or _expiry(identities, server, len(issued), folder, now)


def _secrecy(identities: Identities, server: x509.Certificate) -> Diagnosis | None:
    for name in (AUTHORITY_KEY, SERVER):
        path = identities.folder / name
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            return Diagnosis("certificates", FAILED, f"{path} can be read by others", f"chmod 600 {path}")
    host, _ = split_address(identities.server)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if address_name(host) not in names:
        advice = f"fedpace deploy renew --also {host}"
        return Diagnosis(
            "certificates", FAILED, f"the server's is not for {host}, the address clients connect to", advice
        )
    return None


def _expiry(
    identities: Identities, server: x509.Certificate, clients: int, folder: Path, now: datetime
) -> Diagnosis:
    if soon := identities.warnings(now):
        return Diagnosis(
            "certificates", WARNING, "; ".join(soon), f"fedpace deploy renew [NUMBER] --study {folder}"
        )
    return good(
        "certificates",
        f"the server's until {server.not_valid_after_utc:%Y-%m-%d}; {clients} client{'s' * (clients != 1)} enrolled",
    )


def _versions(folder: Path) -> Diagnosis:
    """The libraries, and whether runs that were begun can be continued with them."""
    found = versions()
    if found.state == FAILED:
        return found
    begun = sorted((folder / RUNS).glob(f"*/{genesis.NAME}"))
    for path in begun:
        genesis.read(DiskFiles(path.parent), _rules(folder))
    return good(
        "versions",
        f"{found.text}; {len(begun)} run{'s' * (len(begun) != 1)} can be continued or replayed"
        if begun
        else found.text,
    )


def _rules(folder: Path) -> Any:
    try:
        return StudyFolder.read(folder).program.rules
    except ConfigError:
        return None


def _ports(study: StudyFolder) -> Diagnosis:
    """Whether the server can listen where it should, and clients reach it there."""
    host, port = study.settings.listen
    reached, _ = split_address(study.settings.address)
    if is_loopback(host) and not is_loopback(reached):
        text = f"listen is {host}, which no other machine reaches, and clients connect to {reached}"
        return Diagnosis("ports", FAILED, text, f'[server] listen = "0.0.0.0:{port}" in run.toml')
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family):
            pass
    except OSError as error:
        return _occupied(study, f"{host}:{port}", error)
    try:
        socket.getaddrinfo(reached, port)
    except OSError as error:
        return Diagnosis(
            "ports", WARNING, f"{reached} cannot be resolved here ({error})", "clients must resolve it"
        )
    return good("ports", f"{host}:{port} is free; clients connect to {study.settings.address}")


def _occupied(study: StudyFolder, where: str, error: OSError) -> Diagnosis:
    if error.errno == errno.EADDRINUSE:
        running = any(
            is_locked(place) for place in (study.settings.folder / RUNS).glob("*") if place.is_dir()
        )
        if running:
            return good("ports", f"{where} is in use: a run of this study is being served")
        return Diagnosis(
            "ports", FAILED, f"{where} is in use", "end the other server, or choose another port"
        )
    if error.errno == errno.EACCES:
        return Diagnosis("ports", FAILED, f"{where} may not be used", "choose a port above 1023")
    text = f"{where} is not an address of this machine ({error.strerror})"
    return Diagnosis("ports", FAILED, text, '[server] listen = "0.0.0.0:PORT" in run.toml')
