"""A client asks for its certificate: the key is made here and never leaves."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedpace.deploy.identity.keys import key_text, new_key, read_text, write_secret
from fedpace.errors import ConfigError


def request(path: str | Path, passphrase: str | None = None) -> tuple[Path, Path]:
    """Make `NAME.key`, which stays, and `NAME.request`, which goes to the study's owner; (key, request)."""
    stem = Path(path)
    key = new_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, stem.name[:64] or "client")])
    signed = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
    kept = write_secret(stem.with_name(f"{stem.name}.key"), key_text(key, passphrase))
    sent = stem.with_name(f"{stem.name}.request")
    sent.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return kept, sent


def requested_key(path: str | Path) -> ec.EllipticCurvePublicKey:
    """The public key of a request that is signed with its private one; nothing else of a request counts."""
    text = read_text(path, "a request")
    try:
        asked = x509.load_pem_x509_csr(text.encode())
        valid = asked.is_signature_valid
        key = asked.public_key()
    except Exception as error:  # whatever the parser finds in a file from somebody else
        raise ConfigError(f"{path} must be a request made by `fedpace deploy request` ({error})") from None
    if not valid or not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
        raise ConfigError(f"{path} must be a request of a P-256 key, signed with it")
    return key
