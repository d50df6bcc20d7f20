"""A bundle: the file with which a client joins. Certificate, authority, address; with or without the key.

fedpace bundle 1
client: 7
server: example.org:8765
-----BEGIN CERTIFICATE-----      its own, then the authority's
-----BEGIN PRIVATE KEY-----      only in the convenience form; ENCRYPTED with a passphrase
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from fedpace.deploy.identity.authority import certificate_text
from fedpace.deploy.identity.contexts import client_context
from fedpace.deploy.identity.keys import blocks, public_bytes, read_key, read_text
from fedpace.deploy.identity.peers import CLIENT_URI
from fedpace.errors import ConfigError

FIRST_LINE = "fedpace bundle 1"


@dataclass(frozen=True)
class Bundle:
    """What a client needs to reach its server and to be known there."""

    client: int
    server: str  # host:port
    certificate: x509.Certificate
    authority: x509.Certificate
    path: Path
    key_path: Path

    def context(self, passphrase: str | None = None) -> ssl.SSLContext:
        """TLS as this client; ConfigError if the key needs another passphrase."""
        read_key(read_text(self.key_path, "the key"), passphrase, str(self.key_path))
        authority = certificate_text(self.authority)
        return client_context(authority, self.path, self.key_path, passphrase)


def bundle_text(
    client: int, server: str, certificate: x509.Certificate, authority: x509.Certificate, key: str = ""
) -> str:
    head = f"{FIRST_LINE}\nclient: {client}\nserver: {server}\n"
    return head + certificate_text(certificate) + certificate_text(authority) + key


def read_bundle(path: str | Path, key: str | Path | None = None, passphrase: str | None = None) -> Bundle:
    """The bundle in a file. A key of its own lies in `key`, or else beside it under any name."""
    file = Path(path)
    text = read_text(file, "a bundle")
    certificate, authority = _certificates(text, file)
    client, server = _field(text, "client", file), _field(text, "server", file)
    if f"{CLIENT_URI}{client}" not in _uris(certificate):
        raise ConfigError(f"{file} must hold the certificate of client {client}; got {_uris(certificate)}")
    found = Path(key) if key is not None else _key_beside(file, text, certificate, passphrase)
    return Bundle(int(client), server, certificate, authority, file, found)


def _field(text: str, name: str, file: Path) -> str:
    lines = text.split("-----BEGIN", 1)[0].splitlines()
    found = [line.partition(": ")[2] for line in lines if line.startswith(f"{name}: ")]
    if lines[:1] != [FIRST_LINE] or len(found) != 1:
        raise ConfigError(f"{file} must be a bundle made by `fedpace deploy enrol`")
    return found[0]


def _certificates(text: str, file: Path) -> tuple[x509.Certificate, x509.Certificate]:
    """The client's and the authority's."""
    try:
        certificates = [
            x509.load_pem_x509_certificate(block.encode())
            for kind, block in blocks(text)
            if kind == "CERTIFICATE"
        ]
        own, authority = certificates
        own.verify_directly_issued_by(authority)
    except Exception as error:  # whatever the parser finds
        raise ConfigError(f"{file} must hold a certificate and that of its authority ({error})") from None
    return own, authority


def _uris(certificate: x509.Certificate) -> list[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.UniformResourceIdentifier)


def _key_beside(file: Path, text: str, certificate: x509.Certificate, passphrase: str | None) -> Path:
    """The file with the certificate's key: the bundle, else a `.key` or older bundle in its folder."""
    wanted = public_bytes(certificate.public_key())
    if _holds(text, wanted, passphrase):
        return file
    for other in sorted(other for kind in ("*.key", "*.bundle") for other in file.parent.glob(kind)):
        if _holds(read_text(other, "a key"), wanted, passphrase):
            return other
    raise ConfigError(
        f"the private key of {file} must be in it or next to it (NAME.key, from `fedpace deploy request`), "
        "with its passphrase if it has one; none found that matches"
    )


def _holds(content: str, wanted: bytes, passphrase: str | None) -> bool:
    for secret in (passphrase, None):
        try:
            key: ec.EllipticCurvePrivateKey = read_key(content, secret, "it")
        except ConfigError:
            continue
        return public_bytes(key.public_key()) == wanted
    return False
