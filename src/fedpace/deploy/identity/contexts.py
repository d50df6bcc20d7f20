"""TLS 1.3 and nothing else, both sides with certificates of one authority, no session tickets."""

from __future__ import annotations

import ssl
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

HANDSHAKE_LIMIT = "too many handshakes"


def server_context(
    authority: str,
    certificate: Path,
    passphrase: str | None = None,
    *,
    refused: Callable[[str], None] = lambda reason: None,
    pending: int = 1024,
    seconds: float = 30.0,
) -> ssl.SSLContext:
    """The server's side: clients must show a certificate of the authority. Failed handshakes are told to `refused`."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, authority, certificate, certificate, passphrase)
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0  # a resumed session would skip the check of the certificate
    context.sslobject_class = _counted(refused, pending, seconds)
    return context


def client_context(
    authority: str, certificate: Path, key: Path, passphrase: str | None = None
) -> ssl.SSLContext:
    """The client's side: the server must show its address in a certificate of the authority."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, authority, certificate, key, passphrase)
    assert context.check_hostname and context.verify_mode is ssl.CERT_REQUIRED
    return context


def _context(
    kind: Any, authority: str, certificate: Path, key: Path, passphrase: str | None
) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=authority)
    # A callable: without one OpenSSL would ask on the terminal for the passphrase of an encrypted key.
    context.load_cert_chain(certificate, key, password=lambda: passphrase or "")
    return context


def _counted(refused: Callable[[str], None], pending: int, seconds: float) -> type[ssl.SSLObject]:
    """Handshakes that tell of their failure, and of which only so many are open at once.

    A connection that is dropped half-way tells nobody: what began longer ago than a handshake may take is over.
    """
    began: weakref.WeakKeyDictionary[ssl.SSLObject, float] = weakref.WeakKeyDictionary()

    def enter(handshake: ssl.SSLObject) -> None:
        now = time.monotonic()
        if handshake not in began and sum(now - at < seconds for at in began.values()) >= pending:
            raise ssl.SSLError(HANDSHAKE_LIMIT)
        began.setdefault(handshake, now)

    class CountedHandshake(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                enter(self)
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                began.pop(self, None)
                refused(_reason(error))
                raise
            began.pop(self, None)

    return CountedHandshake


def _reason(error: ssl.SSLError) -> str:
    """The reason in a few fixed words: a stranger does not choose what is counted."""
    if error.args == (HANDSHAKE_LIMIT,):
        return HANDSHAKE_LIMIT
    if isinstance(error, ssl.SSLCertVerificationError):
        return "expired" if "expired" in error.verify_message else "other authority"
    return "no certificate" if error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE" else "handshake"
