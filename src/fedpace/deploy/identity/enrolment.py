"""The identities of a study as a folder, and the commands on it.

authority.key     the authority's key: enrol and renew need it, serving does not; keep it elsewhere if you like
authority.pem     its certificate
server.pem        the server's certificate and key
server.txt        the address that clients connect to
clients/7.pem     the certificate last issued to client 7
revoked.txt       fingerprints that are refused
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from fedpace.deploy.identity.authority import (
    Authority,
    certificate_text,
    expiry_warnings,
    new_authority,
)
from fedpace.deploy.identity.bundles import bundle_text
from fedpace.deploy.identity.contexts import server_context
from fedpace.deploy.identity.keys import key_text, new_key, read_key, read_text, write_secret
from fedpace.deploy.identity.requests import requested_key
from fedpace.deploy.identity.revocation import RevocationList, revoke_fingerprints
from fedpace.disk.files import write
from fedpace.errors import ConfigError, require, require_count

AUTHORITY_KEY, AUTHORITY, SERVER = "authority.key", "authority.pem", "server.pem"
ADDRESS, CLIENTS, REVOKED = "server.txt", "clients", "revoked.txt"


@dataclass(frozen=True)
class Identities:
    """The folder with the identities of one study."""

    folder: Path

    def create(
        self, study: str, server: str, addresses: Sequence[str], now: datetime, passphrase: str | None = None
    ) -> None:
        """A new authority and the server's certificate. Clients connect to `server` (host:port)."""
        host, _ = split_address(server)
        authority = new_authority(study, now)
        write_secret(self.folder / AUTHORITY_KEY, key_text(authority.key, passphrase))
        write(self.folder / AUTHORITY, certificate_text(authority.certificate).encode())
        write(self.folder / ADDRESS, f"{server}\n".encode())
        key = new_key()
        names = list(dict.fromkeys([host, *addresses]))
        certificate = authority.server(key.public_key(), names, now)
        write_secret(self.folder / SERVER, certificate_text(certificate) + key_text(key))

    def enrol(self, request: str | Path, client: int, now: datetime, passphrase: str | None = None) -> Path:
        """Sign a request: the bundle, without key, to send back to client `client`."""
        key = requested_key(request)
        self._require_free(client)
        certificate = self._authority(passphrase).client(key, client, now)
        return self._issue(client, certificate)

    def enrol_with_key(
        self, client: int, now: datetime, passphrase: str | None = None, bundle_passphrase: str | None = None
    ) -> Path:
        """The convenience form: a bundle with its key, mode 0600. Whoever has the file is the client."""
        self._require_free(client)
        key = new_key()
        certificate = self._authority(passphrase).client(key.public_key(), client, now)
        return self._issue(client, certificate, key_text(key, bundle_passphrase))

    def renew(self, client: int, now: datetime, passphrase: str | None = None) -> Path:
        """A certificate for another year, for the key that the client has: the bundle, without key."""
        old = self.certificates(client)[0]
        if fingerprint(old) in RevocationList(self.folder / REVOKED).revoked:
            raise ConfigError(
                f"client {client} must not be revoked to be renewed; enrol a new request instead"
            )
        key = old.public_key()
        return self._issue(client, self._authority(passphrase).client(key, client, now), "", "renewed")

    def renew_server(self, addresses: Sequence[str], now: datetime, passphrase: str | None = None) -> None:
        """A new key and certificate for the server; it takes them when it starts next."""
        host, _ = split_address(self.server)
        key, names = new_key(), list(dict.fromkeys([host, *addresses]))
        certificate = self._authority(passphrase).server(key.public_key(), names, now)
        fresh = self.folder / f"{SERVER}.new"
        fresh.unlink(missing_ok=True)
        write_secret(fresh, certificate_text(certificate) + key_text(key)).replace(self.folder / SERVER)

    def revoke(self, client: int, now: datetime) -> list[str]:
        """Refuse all certificates of the client from now on, on live connections too; their fingerprints."""
        gone = [fingerprint(certificate) for certificate in self.certificates(client)]
        note = f"client {client}, {now:%Y-%m-%d %H:%M} UTC"
        revoke_fingerprints(self.folder / REVOKED, gone, note)
        return gone

    def certificates(self, client: int) -> list[x509.Certificate]:
        """All certificates issued to the client, newest first."""
        require_count(client, "client", low=0)
        path = self._issued_to(client)
        require(path.exists(), "client", client, "one that was enrolled")
        return _load_all(path)

    def warnings(self, now: datetime) -> list[str]:
        """Certificates that expire within 30 days, and are not revoked."""
        own = [("the authority", self.folder / AUTHORITY), ("the server", self.folder / SERVER)]
        issued = [(f"client {file.stem}", file) for file in sorted((self.folder / CLIENTS).glob("*.pem"))]
        revoked = RevocationList(self.folder / REVOKED).revoked
        loaded = [(name, _load(file)) for name, file in own + issued]
        return expiry_warnings((each for each in loaded if fingerprint(each[1]) not in revoked), now)

    @property
    def server(self) -> str:
        """host:port under which clients reach the server."""
        return read_text(self.folder / ADDRESS, "the server's address").strip()

    def context(
        self, refused: Callable[[str], None], pending: int = 1024, seconds: float = 30.0
    ) -> ssl.SSLContext:
        """TLS as the server, without the authority's key."""
        authority = certificate_text(_load(self.folder / AUTHORITY))
        own = self.folder / SERVER
        return server_context(authority, own, refused=refused, pending=pending, seconds=seconds)

    def revocations(self, alarm: Callable[[str], None]) -> RevocationList:
        return RevocationList(self.folder / REVOKED, alarm)

    def _authority(self, passphrase: str | None) -> Authority:
        text = read_text(self.folder / AUTHORITY_KEY, "the authority's key")
        return Authority(_load(self.folder / AUTHORITY), read_key(text, passphrase, AUTHORITY_KEY))

    def _require_free(self, client: int) -> None:
        """A number belongs to one key: another one gets it only after the first was revoked."""
        require_count(client, "client", low=0)
        path = self._issued_to(client)
        if path.exists() and fingerprint(_load(path)) not in RevocationList(self.folder / REVOKED).revoked:
            raise ConfigError(f"client {client} is enrolled already: renew it, or revoke it first")

    def _issue(self, client: int, certificate: x509.Certificate, key: str = "", label: str = "") -> Path:
        authority = _load(self.folder / AUTHORITY)
        text = bundle_text(client, self.server, certificate, authority, key)
        stamp = f"-{label}-{fingerprint(certificate)[:8]}" if label else ""
        bundle = self.folder / "bundles" / f"client-{client}{stamp}.bundle"
        bundle.unlink(missing_ok=True)
        write_secret(bundle, text)
        self._remember(client, certificate)
        return bundle

    def _remember(self, client: int, certificate: x509.Certificate) -> None:
        path = self._issued_to(client)
        path.parent.mkdir(exist_ok=True)
        before = path.read_bytes() if path.exists() else b""
        write(path, certificate_text(certificate).encode() + before)

    def _issued_to(self, client: int) -> Path:
        return self.folder / CLIENTS / f"{client}.pem"


def fingerprint(certificate: x509.Certificate) -> str:
    """As in the revocation list."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def split_address(address: str) -> tuple[str, int]:
    """host:port, [IPv6]:port -> (host, port)."""
    host, _, port = address.rpartition(":")
    good = host and port.isascii() and port.isdigit() and 0 < int(port) < 65536
    require(bool(good), "the server's address", address, "HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _load(path: Path) -> x509.Certificate:
    """The first certificate in the file."""
    return _load_all(path)[0]


def _load_all(path: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(read_text(path, "a certificate").encode())
    except ValueError as error:
        raise ConfigError(f"{path} must hold a certificate ({error})") from None
