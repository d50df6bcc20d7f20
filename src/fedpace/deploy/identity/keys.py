"""Private keys and PEM files: P-256, readable by their owner only, encrypted if there is a passphrase."""

from __future__ import annotations

import os
import re
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from fedpace.disk.files import sync_folder
from fedpace.errors import ConfigError
from fedpace.untrusted import read_regular

MAX_FILE_BYTES = 1 << 20
_BLOCK = re.compile(r"-----BEGIN ([A-Z ]+)-----\n.*?\n-----END \1-----\n", re.DOTALL)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_text(key: ec.EllipticCurvePrivateKey, passphrase: str | None = None) -> str:
    """The key as PEM; PKCS #8, encrypted with the passphrase if there is one."""
    lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        lock = serialization.BestAvailableEncryption(passphrase.encode())
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    return key.private_bytes(*form, lock).decode()


def read_key(text: str, passphrase: str | None, what: str) -> ec.EllipticCurvePrivateKey:
    """The one private key in the text; ConfigError without it, or without its passphrase."""
    found = [block for kind, block in blocks(text) if kind.endswith("PRIVATE KEY")]
    if len(found) != 1:
        raise ConfigError(f"{what} must hold one private key; got {len(found)}")
    secret = passphrase.encode() if passphrase else None
    try:
        key = serialization.load_pem_private_key(found[0].encode(), secret)
    except TypeError:
        wanted = "no passphrase" if passphrase else "its passphrase"
        raise ConfigError(f"the key in {what} needs {wanted}") from None
    except ValueError:
        raise ConfigError(f"the key in {what} cannot be read: a wrong passphrase, or damaged") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"the key in {what} must be an elliptic-curve key")
    return key


def public_bytes(key: PublicKeyTypes) -> bytes:
    """What two keys are compared by."""
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return key.public_bytes(*form)


def blocks(text: str) -> list[tuple[str, str]]:
    """(kind, text) of every PEM block."""
    return [(match[1], match[0]) for match in _BLOCK.finditer(text)]


def read_text(path: str | Path, what: str) -> str:
    """The text of a small file; ConfigError if there is none."""
    try:
        return read_regular(path, MAX_FILE_BYTES).decode(errors="replace").replace("\r\n", "\n")
    except OSError as error:
        raise ConfigError(
            f"{what} must be a file that can be read ({error.strerror}); got {str(path)!r}"
        ) from None


def write_secret(path: Path, text: str) -> Path:
    """A new file of mode 0600 from its first byte on; ConfigError if there is one already."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ConfigError(f"{path} must be a new file that can be written ({error.strerror})") from None
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)
    return path
