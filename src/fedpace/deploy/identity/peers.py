"""The certificate that a peer has shown, as the few facts that are decided on."""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass
from typing import Any

from fedpace.errors import RemoteError

CLIENT_URI = "urn:fedpace:client:"
LARGEST_CLIENT = 2**32 - 1


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """A certificate that TLS has verified against our authority."""

    client: int
    fingerprint: str  # SHA-256 of the certificate, hexadecimal
    expires: float  # seconds since 1970


def fingerprint_of(certificate: bytes) -> str:
    """SHA-256 of a certificate in DER."""
    return hashlib.sha256(certificate).hexdigest()


def peer_of(connection: ssl.SSLObject | ssl.SSLSocket) -> PeerCertificate:
    """The client at the other end; RemoteError if its certificate names none."""
    shown, raw = connection.getpeercert(), connection.getpeercert(binary_form=True)
    if not shown or not raw:
        raise RemoteError("no certificate")
    return PeerCertificate(
        client_number(shown), fingerprint_of(raw), float(ssl.cert_time_to_seconds(str(shown["notAfter"])))
    )


def client_number(shown: Any) -> int:
    """The number in the one URI of ours that a client's certificate has."""
    names = [value for kind, value in shown.get("subjectAltName", ()) if kind == "URI"]
    text = names[0].removeprefix(CLIENT_URI) if len(names) == 1 else ""
    if not (text.isascii() and text.isdigit()) or str(int(text)) != text or int(text) > LARGEST_CLIENT:
        raise RemoteError("a certificate of no client")
    return int(text)
