from __future__ import annotations

from pathlib import Path

import pytest

from fedpace.deploy.identity.revocation import RevocationList, parse_revoked, revoke_fingerprints
from fedpace.errors import ConfigError

A, B = "ab" * 32, "cd" * 32


def test_one_fingerprint_per_line_with_comments() -> None:
    text = f"# lost laptops\n{A}  # client 3\n\n{':'.join(['CD'] * 32)}\n"
    assert parse_revoked(text) == {A, B}


@pytest.mark.parametrize("line", ["abcd", A + "0", "g" * 64])
def test_a_line_that_is_no_fingerprint_is_an_error(line: str) -> None:
    with pytest.raises(ConfigError, match="line 2 of the revocation list must be a SHA-256 fingerprint"):
        parse_revoked(f"{A}\n{line}\n")


def test_a_change_is_seen_once(tmp_path: Path) -> None:
    path = tmp_path / "revoked.txt"
    seen = RevocationList(path)
    assert seen.revoked == frozenset() and not seen.refresh()
    revoke_fingerprints(path, [A], "client 1")
    assert seen.refresh() and seen.revoked == {A} and not seen.refresh()
    revoke_fingerprints(path, [A, B], "client 2")
    assert seen.refresh() and seen.revoked == {A, B}


def test_a_list_that_is_damaged_or_gone_leaves_the_last_good_one_in_force(tmp_path: Path) -> None:
    alarms: list[str] = []
    path = tmp_path / "revoked.txt"
    revoke_fingerprints(path, [A], "client 1")
    seen = RevocationList(path, alarms.append)
    path.write_text("half a li")
    assert not seen.refresh() and seen.revoked == {A}
    path.unlink()
    assert not seen.refresh() and seen.revoked == {A}
    assert len(alarms) == 2 and all("the former list stays in force" in text for text in alarms)


def test_a_server_does_not_start_with_a_damaged_list(tmp_path: Path) -> None:
    path = tmp_path / "revoked.txt"
    path.write_text("half a li")
    with pytest.raises(ConfigError, match="revocation list"):
        RevocationList(path)
