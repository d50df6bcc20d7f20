"""Certificates that are not accepted any more: one fingerprint per line of a file that a running server watches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from fedpace.disk.files import write
from fedpace.errors import ConfigError
from fedpace.untrusted import read_regular

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
MAX_BYTES = 64 << 20


def parse_revoked(text: str) -> frozenset[str]:
    """The fingerprints in the text; ConfigError for a line that is neither one nor a comment."""
    lines = enumerate((line.partition("#")[0].strip().lower() for line in text.splitlines()), start=1)
    entries = {at: line.replace(":", "") for at, line in lines if line}
    wrong = [at for at, line in entries.items() if not _FINGERPRINT.fullmatch(line)]
    if wrong:
        raise ConfigError(f"line {wrong[0]} of the revocation list must be a SHA-256 fingerprint")
    return frozenset(entries.values())


def revoke_fingerprints(path: str | Path, fingerprints: Iterable[str], comment: str) -> None:
    """Add those that are not on the list; at once whole on disk, where servers see it."""
    file = Path(path)
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    known = parse_revoked(before)
    lines = [f"{fingerprint}  # {comment}\n" for fingerprint in fingerprints if fingerprint not in known]
    write(file, "".join([before, *lines]).encode())


class RevocationList:
    """The file, read again when it changes. A list that cannot be read leaves the last good one in force."""

    def __init__(self, path: str | Path, alarm: Callable[[str], None] = lambda text: None) -> None:
        self._path, self._alarm = Path(path), alarm
        self._seen = self._stamp()
        self.revoked = self._read() if self._seen is not None else frozenset()

    def refresh(self) -> bool:
        """Whether the list has changed since the last look."""
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        self._seen = stamp
        try:
            now = self._read()
        except ConfigError as error:
            self._alarm(f"{error}; the former list stays in force")
            return False
        changed, self.revoked = now != self.revoked, now
        return changed

    def _stamp(self) -> tuple[int, int, int] | None:
        """None if there is no such file, which is how a study begins."""
        try:
            state = self._path.stat()
        except OSError:
            return None
        return state.st_mtime_ns, state.st_size, state.st_ino

    def _read(self) -> frozenset[str]:
        try:
            return parse_revoked(read_regular(self._path, MAX_BYTES).decode(errors="replace"))
        except OSError as error:
            raise ConfigError(f"the revocation list cannot be read ({error.strerror})") from None
