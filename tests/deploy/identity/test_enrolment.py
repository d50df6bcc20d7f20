"""Requests, bundles, renewal and revocation as files, and what is in the certificates."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from fedpace.deploy.identity.authority import expiry_warnings
from fedpace.deploy.identity.bundles import read_bundle
from fedpace.deploy.identity.enrolment import Identities, fingerprint, split_address
from fedpace.deploy.identity.requests import request, requested_key
from fedpace.deploy.identity.revocation import RevocationList
from fedpace.errors import ConfigError

NOW = datetime(2026, 3, 1, tzinfo=UTC)
YEAR = timedelta(days=365)


@pytest.fixture
def study(tmp_path: Path) -> Identities:
    identities = Identities(tmp_path / "identities")
    identities.create("hearts", "example.org:8765", ["10.0.0.7", "::1"], NOW)
    return identities


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_secrets_are_their_owners_only(study: Identities, tmp_path: Path) -> None:
    key, _ = request(tmp_path / "site")
    bundle = study.enrol_with_key(0, NOW)
    secrets = [key, bundle, study.folder / "authority.key", study.folder / "server.pem"]
    assert [mode(path) for path in secrets] == [0o600] * 4


def test_a_key_made_on_the_client_never_leaves_it(study: Identities, tmp_path: Path) -> None:
    key, asked = request(tmp_path / "site" / "berlin")
    bundle = study.enrol(asked, 7, NOW)
    for path in [asked, *study.folder.rglob("*")]:
        assert path.is_dir() or key.read_text().splitlines()[1] not in path.read_text()
    assert "PRIVATE" not in bundle.read_text() and "PRIVATE" not in asked.read_text()
    joined = read_bundle(bundle, key)
    assert (joined.client, joined.server, joined.key_path) == (7, "example.org:8765", key)
    joined.context()


def test_a_key_beside_the_bundle_is_found(study: Identities, tmp_path: Path) -> None:
    request(tmp_path / "another")
    key, asked = request(tmp_path / "berlin")
    moved = tmp_path / "client-7.bundle"
    moved.write_bytes(study.enrol(asked, 7, NOW).read_bytes())
    assert read_bundle(moved).key_path == key
    key.unlink()
    with pytest.raises(ConfigError, match="the private key of .* must be in it or next to it"):
        read_bundle(moved)


def test_a_bundle_with_its_key_needs_nothing_else(study: Identities) -> None:
    joined = read_bundle(study.enrol_with_key(3, NOW))
    assert joined.client == 3 and joined.key_path == joined.path
    joined.context()


def test_a_passphrase_protects_keys(study: Identities, tmp_path: Path) -> None:
    bundle = study.enrol_with_key(3, NOW, bundle_passphrase="secret words")
    assert "ENCRYPTED PRIVATE KEY" in bundle.read_text()
    read_bundle(bundle, passphrase="secret words").context("secret words")
    for wrong in (None, "other words"):
        with pytest.raises(ConfigError, match="passphrase"):
            read_bundle(bundle, passphrase=wrong)
    key, _ = request(tmp_path / "site", "secret words")
    assert "ENCRYPTED PRIVATE KEY" in key.read_text()


def test_the_authoritys_key_may_be_locked_and_taken_away(tmp_path: Path) -> None:
    study = Identities(tmp_path / "identities")
    study.create("hearts", "localhost:1", [], NOW, passphrase="owner")
    with pytest.raises(ConfigError, match="needs its passphrase"):
        study.enrol_with_key(0, NOW)
    study.enrol_with_key(0, NOW, passphrase="owner")
    (study.folder / "authority.key").unlink()
    study.context(print)  # serving does not need it
    with pytest.raises(ConfigError, match="the authority's key"):
        study.enrol_with_key(1, NOW, passphrase="owner")


def test_what_a_certificate_says(study: Identities) -> None:
    study.enrol_with_key(12, NOW)
    own = study.certificates(12)[0]
    assert own.not_valid_after_utc == NOW + YEAR
    names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["urn:fedpace:client:12"]
    purpose = own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purpose) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_the_server_is_named_by_host_and_address(study: Identities) -> None:
    server = x509.load_pem_x509_certificate((study.folder / "server.pem").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["example.org"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7", "::1"]
    purpose = server.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purpose) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_a_number_belongs_to_one_key(study: Identities, tmp_path: Path) -> None:
    study.enrol_with_key(0, NOW)
    _, asked = request(tmp_path / "thief")
    with pytest.raises(ConfigError, match="client 0 is enrolled already: renew it, or revoke it first"):
        study.enrol(asked, 0, NOW)
    study.revoke(0, NOW)
    study.enrol(asked, 0, NOW)


def test_renewal_keeps_the_key_and_adds_a_year(study: Identities, tmp_path: Path) -> None:
    key, asked = request(tmp_path / "berlin")
    study.enrol(asked, 7, NOW)
    later = NOW + timedelta(days=350)
    joined = read_bundle(study.renew(7, later), key)
    joined.context()
    assert joined.certificate.not_valid_after_utc == later + YEAR
    assert joined.certificate.public_key() == study.certificates(7)[1].public_key()


def test_renewing_a_bundle_with_key_finds_it_in_the_old_one(study: Identities) -> None:
    old = study.enrol_with_key(7, NOW)
    assert read_bundle(study.renew(7, NOW)).key_path == old


def test_the_servers_certificate_is_renewed_with_its_addresses(study: Identities) -> None:
    study.renew_server(["10.0.0.8"], NOW + YEAR)
    server = x509.load_pem_x509_certificate((study.folder / "server.pem").read_bytes())
    assert server.not_valid_after_utc == NOW + 2 * YEAR
    assert mode(study.folder / "server.pem") == 0o600
    study.context(print)


def test_revoking_covers_every_certificate_of_the_client(study: Identities) -> None:
    study.enrol_with_key(7, NOW)
    study.renew(7, NOW)
    gone = study.revoke(7, NOW)
    assert sorted(gone) == sorted(fingerprint(one) for one in study.certificates(7)) and len(set(gone)) == 2
    assert RevocationList(study.folder / "revoked.txt").revoked == frozenset(gone)
    assert study.revoke(7, NOW) == gone
    assert len((study.folder / "revoked.txt").read_text().splitlines()) == 2
    with pytest.raises(ConfigError, match="must not be revoked to be renewed"):
        study.renew(7, NOW)
    with pytest.raises(ConfigError, match="one that was enrolled; got 8"):
        study.revoke(8, NOW)


def test_thirty_days_before_the_end_there_is_a_warning(study: Identities) -> None:
    study.enrol_with_key(4, NOW + timedelta(days=100))
    end = NOW + YEAR
    assert study.warnings(end - timedelta(days=30, seconds=1)) == []
    assert study.warnings(end - timedelta(days=30)) == [
        "the certificate of the server expires on 2027-03-01: renew it"
    ]
    names = [text.split(" expires")[0] for text in study.warnings(end + timedelta(days=90))]
    assert names == ["the certificate of the server", "the certificate of client 4"]
    assert expiry_warnings([], NOW) == []


def test_no_certificate_outlives_the_authority(study: Identities) -> None:
    decade = NOW + timedelta(days=3650)
    study.enrol_with_key(4, decade - timedelta(days=1))
    assert study.certificates(4)[0].not_valid_after_utc == decade
    with pytest.raises(ConfigError, match="the authority's certificate must be still valid"):
        study.enrol_with_key(5, decade)


@pytest.mark.parametrize(
    "text", ["", "garbage", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"]
)
def test_files_that_are_no_request_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.request"
    path.write_text(text)
    with pytest.raises(ConfigError, match="must be a request"):
        requested_key(path)


def test_a_request_must_be_signed_with_its_key(tmp_path: Path) -> None:
    _, asked = request(tmp_path / "site")
    lines = asked.read_text().splitlines()
    at = len(lines) - 2
    lines[at] = ("A" if lines[at][0] != "A" else "B") + lines[at][1:]
    asked.write_text("\n".join(lines) + "\n")
    with pytest.raises(ConfigError, match="must be a request"):
        requested_key(asked)


def test_nothing_is_overwritten(study: Identities, tmp_path: Path) -> None:
    request(tmp_path / "site")
    with pytest.raises(ConfigError, match="must be a new file"):
        request(tmp_path / "site")
    with pytest.raises(ConfigError, match="must be a new file"):
        study.create("again", "example.org:1", [], NOW)


@pytest.mark.parametrize(
    "text", ["", "fedpace bundle 1\nclient: 3\n", "fedpace bundle 2\nclient: 3\nserver: a:1\n"]
)
def test_files_that_are_no_bundle_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.bundle"
    path.write_text(text)
    with pytest.raises(ConfigError, match="must hold a certificate"):
        read_bundle(path)


def test_a_bundle_says_what_its_certificate_says(study: Identities) -> None:
    bundle = study.enrol_with_key(3, NOW)
    text = bundle.read_text()
    bundle.write_text(text.replace("client: 3", "client: 4"))
    with pytest.raises(ConfigError, match="certificate of client 4"):
        read_bundle(bundle)
    bundle.write_text(text.replace("fedpace bundle 1", "fedpace bundle 9"))
    with pytest.raises(ConfigError, match="must be a bundle made by"):
        read_bundle(bundle)


def test_addresses() -> None:
    assert split_address("example.org:80") == ("example.org", 80)
    assert split_address("[::1]:8765") == ("::1", 8765)
    for wrong in ("example.org", "example.org:", ":80", "a:0", "a:65536", "a:-1", "a:x"):
        with pytest.raises(ConfigError, match="HOST:PORT"):
            split_address(wrong)
