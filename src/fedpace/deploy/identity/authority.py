"""The certificate authority of one study: it signs a server and numbered clients, and nothing else."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedpace.deploy.identity.keys import new_key, public_bytes
from fedpace.deploy.identity.peers import CLIENT_URI, LARGEST_CLIENT
from fedpace.errors import ConfigError, require, require_count

LIFETIME = timedelta(days=365)
AUTHORITY_LIFETIME = timedelta(days=3650)
WARN_BEFORE = timedelta(days=30)
CLOCK_SKEW = timedelta(hours=1)  # a machine whose clock is a little behind can use its certificate at once
_USAGE = ("digital_signature", "key_cert_sign", "crl_sign")
_NO_USAGE = (
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "encipher_only",
    "decipher_only",
)


@dataclass(frozen=True)
class Authority:
    """Its certificate, which everybody has, and its key, which only enrolment needs."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def __post_init__(self) -> None:
        same = public_bytes(self.certificate.public_key()) == public_bytes(self.key.public_key())
        require(same, "the authority's key", "another one", "the key of its certificate")

    def server(
        self, key: CertificatePublicKeyTypes, addresses: Sequence[str], now: datetime
    ) -> x509.Certificate:
        """A certificate for a server that is reached under these host names and IP addresses."""
        require(bool(addresses), "addresses of the server", addresses, "at least one host name or IP address")
        names = [address_name(address) for address in addresses]
        return self._sign("server", names, ExtendedKeyUsageOID.SERVER_AUTH, key, now)

    def client(self, key: CertificatePublicKeyTypes, number: int, now: datetime) -> x509.Certificate:
        """A certificate that makes its holder client `number`."""
        require_count(number, "client", low=0, high=LARGEST_CLIENT)
        name = x509.UniformResourceIdentifier(f"{CLIENT_URI}{number}")
        return self._sign(f"client {number}", [name], ExtendedKeyUsageOID.CLIENT_AUTH, key, now)

    def _sign(
        self,
        name: str,
        names: Sequence[x509.GeneralName],
        purpose: x509.ObjectIdentifier,
        key: CertificatePublicKeyTypes,
        now: datetime,
    ) -> x509.Certificate:
        expires = min(now + LIFETIME, self.certificate.not_valid_after_utc)
        require(expires > now, "the authority's certificate", f"expired on {expires:%Y-%m-%d}", "still valid")
        issuer = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        builder = _builder(name, self.certificate.subject, key, now, expires, is_authority=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=True)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer)
        return builder.add_extension(identifier, critical=False).sign(self.key, hashes.SHA256())


def new_authority(study: str, now: datetime) -> Authority:
    """A new authority; its certificate signs others but no further authorities."""
    key, name = new_key(), f"fedpace study {study}"[:64]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    expires = now + AUTHORITY_LIFETIME
    builder = _builder(name, subject, key.public_key(), now, expires, is_authority=True)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def _builder(
    name: str,
    issuer: x509.Name,
    key: CertificatePublicKeyTypes,
    now: datetime,
    expires: datetime,
    *,
    is_authority: bool,
) -> x509.CertificateBuilder:
    usage = dict.fromkeys(_USAGE, is_authority) | dict.fromkeys(_NO_USAGE, False)
    usage["digital_signature"] = not is_authority
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    depth = 0 if is_authority else None
    return (
        x509.CertificateBuilder(issuer_name=issuer, subject_name=subject, public_key=key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(expires)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=depth), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def address_name(address: str) -> x509.GeneralName:
    """An IP address or a host name, as it stands in a certificate."""
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        pass
    try:
        return x509.DNSName(address.encode("idna").decode())
    except (UnicodeError, ValueError):
        raise ConfigError(f"an address must be a host name or an IP address; got {address!r}") from None


def certificate_text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def expiry_warnings(certificates: Iterable[tuple[str, x509.Certificate]], now: datetime) -> list[str]:
    """What to say about (name, certificate) that expire within 30 days."""
    return [
        f"the certificate of {name} expires on {certificate.not_valid_after_utc:%Y-%m-%d}: renew it"
        for name, certificate in certificates
        if certificate.not_valid_after_utc - now <= WARN_BEFORE
    ]
