"""Nobody is let in who does not belong: over real TLS connections, counted at the server's first event."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from deploy.faults import faulty
from deploy.pairs import joining, message, run, serving, small, until
from fedpace.deploy.identity.authority import certificate_text
from fedpace.deploy.identity.bundles import read_bundle
from fedpace.deploy.identity.contexts import client_context
from fedpace.deploy.identity.enrolment import Identities
from fedpace.deploy.identity.keys import key_text, new_key
from fedpace.deploy.transport import Connected, Disconnected
from fedpace.deploy.websocket import server as server_module
from fedpace.deploy.websocket.addresses import uri
from fedpace.deploy.websocket.server import WebsocketServer
from fedpace.deploy.websocket.wire import NO_LINK, START, HelloFrame, greeting_bytes

NOW = datetime.now(UTC)
HELLO = greeting_bytes(HelloFrame(0, b"m" * 16, NO_LINK, START))


def a_study(folder: Path) -> Identities:
    identities = Identities(folder)
    identities.create("hearts", "127.0.0.1:1", ["localhost", "::1"], NOW)
    return identities


@pytest.fixture
def study(tmp_path: Path) -> Identities:
    return a_study(tmp_path / "identities")


def member(study: Identities, client: int = 0, now: datetime = NOW) -> ssl.SSLContext:
    return read_bundle(study.enrol_with_key(client, now)).context()


def without_certificate(study: Identities) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(study.folder / "authority.pem")
    return context


def of_another_authority(study: Identities) -> ssl.SSLContext:
    """A certificate for the same number, from a stranger's authority of the same name; it trusts our server."""
    other = read_bundle(a_study(study.folder.parent / "other").enrol_with_key(0, NOW))
    authority = (study.folder / "authority.pem").read_text()
    return client_context(authority, other.path, other.key_path)


def revoked(study: Identities) -> ssl.SSLContext:
    context = member(study)
    study.revoke(0, NOW)
    return context


def expired(study: Identities) -> ssl.SSLContext:
    return member(study, 0, NOW - timedelta(days=366))


def the_server_itself(study: Identities) -> ssl.SSLContext:
    authority = (study.folder / "authority.pem").read_text()
    return client_context(authority, study.folder / "server.pem", study.folder / "server.pem")


STRANGERS: dict[str, tuple[Callable[[Identities], ssl.SSLContext], str]] = {
    "no certificate": (without_certificate, "no certificate"),
    "other authority": (of_another_authority, "other authority"),
    "revoked": (revoked, "revoked"),
    "expired": (expired, "expired"),
    "server's certificate": (the_server_itself, "other authority"),
}


async def knock(port: int, context: ssl.SSLContext, path: str = "") -> bytes:
    """Try to get in and say hello; the answer, or nothing if there was none."""
    address = path or uri("127.0.0.1", port, secure=True)
    try:
        async with connect(address, ssl=context, compression=None, proxy=None) as socket:
            await socket.send(HELLO)
            return await socket.recv(decode=False)
    except InvalidStatus as refusal:
        assert refusal.response.status_code in (403, 404)
    except (OSError, EOFError, ConnectionClosed, WebSocketException):
        pass
    return b""


async def let_in(server: WebsocketServer) -> int:
    """Events that strangers caused."""
    return len(server._events)


def strangers_are_refused(study: Identities, kind: str, count: int) -> None:
    async def check() -> None:
        make, reason = STRANGERS[kind]
        context = make(study)
        async with serving(identities=study) as server:
            for _ in range(count):
                assert await knock(server.address[1], context) == b""
            await until(lambda: sum(server.rejected.values()) == count)
            assert dict(server.rejected) == {reason: count}
            assert await let_in(server) == 0

    run(check())


@pytest.mark.parametrize("kind", STRANGERS)
def test_strangers_are_refused_and_counted(study: Identities, kind: str) -> None:
    strangers_are_refused(study, kind, 4)


@pytest.mark.long
@pytest.mark.parametrize("kind", STRANGERS)
def test_a_thousand_strangers_are_refused(study: Identities, kind: str) -> None:
    strangers_are_refused(study, kind, 200)


def replays_are_refused(study: Identities, count: int) -> None:
    """All that a member has sent, sent again by somebody who has only listened."""

    async def check() -> None:
        async with serving(identities=study) as server, faulty(server.address[1]) as proxy:
            async with joining(0, proxy.port, context=member(study)) as client:
                await client.next()
                client.send([b"trust me"])
                assert await server.next() == Connected(0) and await message(server) == b"trust me"
            assert isinstance(await server.next(), Disconnected)
            for _ in range(count):
                await _replay(server.address[1], bytes(proxy.recorded))
            await until(lambda: server.rejected["handshake"] == count)
            assert await let_in(server) == 0

    run(check())


async def _replay(port: int, recorded: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(recorded)
        await writer.drain()
        await reader.read()
    except OSError:
        pass
    writer.transport.abort()


def test_a_replay_is_refused(study: Identities) -> None:
    replays_are_refused(study, 3)


@pytest.mark.long
def test_two_hundred_replays_are_refused(study: Identities) -> None:
    replays_are_refused(study, 200)


def test_members_are_let_in_and_go_both_ways(study: Identities) -> None:
    async def check() -> None:
        async with (
            serving(identities=study) as server,
            joining(0, server.address[1], context=member(study, 0)) as one,
            joining(5, server.address[1], context=member(study, 5)) as two,
        ):
            assert {await server.next(), await server.next()} == {Connected(0), Connected(5)}
            for client, end in ((0, one), (5, two)):
                assert await end.next() == Connected(client)
                server.send(client, [bytes([client]) * 100_000])
                assert await message(end) == bytes([client]) * 100_000

    run(check())


def test_the_number_is_the_certificates(study: Identities) -> None:
    async def check() -> None:
        async with (
            serving(identities=study) as server,
            joining(2, server.address[1], context=member(study, 3)) as impostor,
        ):
            await until(lambda: server.rejected["number"])
            await until(lambda: impostor.trouble)
            assert "the certificate of client 3 says 2" in impostor.trouble
            assert await let_in(server) == 0

    run(check())


def test_revocation_ends_a_live_connection_and_is_looked_for_twice_a_second(study: Identities) -> None:
    async def check() -> None:
        context, other = member(study, 0), member(study, 1)
        async with (
            serving(identities=study) as server,
            joining(0, server.address[1], context=context) as client,
            joining(1, server.address[1], context=other) as bystander,
        ):
            await client.next(), await bystander.next()
            await server.next(), await server.next()
            study.revoke(0, NOW)
            server.housekeep()
            assert await server.next() == Disconnected(0, "the certificate is revoked")
            await until(lambda: server.rejected["revoked"] > 1)  # it tries again, in vain
            await until(lambda: client.trouble == "the certificate is revoked")
            bystander.send([b"still in"])
            assert await message(server) == b"still in"

    run(check())
    assert server_module.LOOK_S <= 0.5


def test_a_certificate_that_expires_ends_a_live_connection(study: Identities) -> None:
    async def check() -> None:
        late = [NOW.timestamp()]
        async with (
            serving(identities=study, wall_clock=lambda: late[0]) as server,
            joining(0, server.address[1], context=member(study)) as client,
        ):
            await client.next(), await server.next()
            late[0] += 366 * 86400
            server.housekeep()
            assert await server.next() == Disconnected(0, "the certificate has expired")

    run(check())


def test_older_tls_is_refused(study: Identities) -> None:
    async def check() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(study.folder / "authority.pem")
        bundle = study.enrol_with_key(0, NOW)
        context.load_cert_chain(bundle, bundle)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        async with serving(identities=study) as server:
            assert await knock(server.address[1], context) == b""
            await until(lambda: server.rejected["handshake"] == 1)

    run(check())


def test_there_are_no_session_tickets(study: Identities) -> None:
    """A resumed session would skip the certificate: after a whole exchange the client has nothing to resume with."""

    async def check() -> None:
        async with serving(identities=study) as server:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", server.address[1], ssl=member(study), server_hostname="127.0.0.1"
            )
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await reader.read()
            session = writer.get_extra_info("ssl_object").session
            assert session is None or not session.has_ticket
            writer.transport.abort()

    run(check())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_server_is_known_by_its_addresses(study: Identities, host: str) -> None:
    async def check() -> None:
        async with serving(identities=study) as server:
            answer = await knock(server.address[1], member(study), uri(host, server.address[1], secure=True))
            assert answer.startswith(b"\x02fedpace")

    run(check())


def test_a_server_at_another_address_is_not_believed(study: Identities) -> None:
    """Its certificate is for 127.0.0.1; at 127.0.0.2 it could be anybody who stole nothing but a route."""

    async def check() -> None:
        async with serving(identities=study) as server:
            context = member(study)
            with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
                await asyncio.open_connection(
                    "127.0.0.1", server.address[1], ssl=context, server_hostname="127.0.0.2"
                )

    run(check())


def test_a_client_is_no_server(study: Identities, tmp_path: Path) -> None:
    """A member with its own certificate cannot pose as the server, whatever name it asks for."""
    context, bundle = member(study, 0), study.enrol_with_key(1, NOW)
    posing = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    posing.load_cert_chain(bundle, bundle)

    async def check() -> None:
        async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            raise AssertionError("believed")

        listener = await asyncio.start_server(nothing, "127.0.0.1", 0, ssl=posing)
        port = listener.sockets[0].getsockname()[1]
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="127.0.0.1")
        listener.close()

    run(check())


@pytest.mark.parametrize(
    "names", [[], ["urn:fedpace:client:x"], ["urn:fedpace:client:0", "urn:fedpace:client:1"]]
)
def test_a_certificate_of_no_one_client_is_refused(
    study: Identities, tmp_path: Path, names: list[str]
) -> None:
    """Signed by the authority for a client, but without one number of ours."""
    key, odd = new_key(), tmp_path / "odd.pem"
    san = [x509.UniformResourceIdentifier(name) for name in names] or [x509.DNSName("client-0")]
    signed = study._authority(None)._sign("odd", san, ExtendedKeyUsageOID.CLIENT_AUTH, key.public_key(), NOW)
    odd.write_text(certificate_text(signed) + key_text(key))
    context = client_context((study.folder / "authority.pem").read_text(), odd, odd)

    async def check() -> None:
        async with serving(identities=study) as server:
            assert await knock(server.address[1], context) == b""
            assert dict(server.rejected) == {"no client": 1}

    run(check())


def test_a_number_beyond_the_study_is_refused(study: Identities) -> None:
    async def check() -> None:
        async with serving(identities=study, clients=7) as server:
            assert await knock(server.address[1], member(study, 7)) == b""
            assert dict(server.rejected) == {"number": 1}

    run(check())


def test_only_so_many_handshakes_are_open_at_once(study: Identities) -> None:
    async def check() -> None:
        async with serving(identities=study, limits=small(pending_handshakes=3)) as server:
            port = server.address[1]
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            for _, writer in held:
                writer.write(b"\x16")  # the first byte of a handshake, and nothing more
            assert await knock(port, member(study)) == b""
            assert server.rejected["too many handshakes"] >= 1
            for _, writer in held:
                writer.transport.abort()

    run(check())


def test_other_paths_lead_nowhere(study: Identities) -> None:
    async def check() -> None:
        async with serving(identities=study) as server:
            port = server.address[1]
            assert await knock(port, member(study), f"wss://127.0.0.1:{port}/admin") == b""
            assert dict(server.rejected) == {"path": 1}

    run(check())
