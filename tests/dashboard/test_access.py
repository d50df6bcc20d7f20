"""The contract of `fedpace ui`, line by line, against really started processes."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.dashboard.serving import TOKEN, Server, ended, ready, started, stored

from fedpace.dashboard.access import access
from fedpace.dashboard.server import PageOptions, greeting, token_in

OTHERS = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "BREW")
PATHS = ("/", "/api/runs", "/nowhere", "/static/index.html", "/..%2f..%2fetc", "/api/events/runs")


def raw(server: Server, text: str) -> bytes:
    """What comes back for these very bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(text.encode("latin-1"))
        line.shutdown(socket.SHUT_WR)
        parts = []
        while part := line.recv(65536):
            parts.append(part)
    return b"".join(parts)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


# ------------------------------------------------------------ what is printed, what is there


def test_the_address_is_printed_once_it_answers(ui: Server) -> None:
    assert ui.said == [f"{ui.address}/"]
    assert ui.ask("GET", "/").status == 200


def test_a_private_address_has_a_token_in_its_fragment(private: Server) -> None:
    address, _, token = private.said[0].partition("/#token=")
    assert address == private.address and len(token) >= 32


def test_the_page_and_the_list_of_runs(ui: Server) -> None:
    stored(ui.store, "first")
    page, runs = ui.ask("GET", "/"), ui.ask("GET", "/api/runs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'; script-src 'self'" in page.headers["content-security-policy"]
    [first] = [run for run in runs.json if run["name"] == "first"]
    assert (first["steps"], first["state"], first["metrics"]["loss"]) == (3, "done", 1 / 3)


def test_head_of_a_stream_ends(ui: Server) -> None:
    answer = ui.ask("HEAD", "/api/events/runs")
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("path", ["/", "/api/runs", "/static/index.html"])
def test_head_is_get_without_a_body(ui: Server, path: str) -> None:
    head, get = ui.ask("HEAD", path), ui.ask("GET", path)
    assert head.status == 200 and head.body == b""
    assert head.headers["content-length"] == str(len(get.body))


# ------------------------------------------------------------ actions


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", OTHERS)
def test_every_other_method_needs_the_token_before_any_routing(ui: Server, method: str, path: str) -> None:
    assert ui.ask(method, path).status == 401
    assert ui.ask(method, path, {"Authorization": "Bearer wrong"}).status == 401
    assert ui.ask(method, path, {"Authorization": f"Basic {TOKEN}"}).status == 401
    assert ui.act(method, path, Origin="http://evil.example").status == 403


def test_methods_without_a_path_of_their_own_are_refused_too(ui: Server) -> None:
    for line in ("OPTIONS *", "CONNECT evil.example:80"):
        assert status(raw(ui, f"{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")) in (
            400,
            401,
        )


@pytest.mark.parametrize(
    "origin", ["null", "http://127.0.0.1:1", "https://127.0.0.1:{port}", "http://localhost:{port}", ""]
)
def test_a_foreign_origin_is_refused_even_with_the_token(ui: Server, origin: str) -> None:
    foreign = origin.format(port=ui.port)
    assert ui.act("DELETE", "/api/runs/nothing", Origin=foreign).status == 403


def test_the_own_origin_is_none_that_is_foreign(ui: Server) -> None:
    assert ui.act("DELETE", "/api/runs/nothing", Origin=ui.address).status == 404
    assert ui.act("DELETE", "/api/runs/nothing", **{"Sec-Fetch-Site": "cross-site"}).status == 403


def test_what_runs_say_is_not_for_other_sites(ui: Server) -> None:
    """The page may be opened from a link or shown in a notebook's frame; its data only the page itself may ask for."""
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        assert ui.ask("GET", "/api/runs", {"Sec-Fetch-Site": site}).status == status
        assert ui.ask("GET", "/", {"Sec-Fetch-Site": site}).status == 200


def test_two_authorizations_are_none(ui: Server) -> None:
    both = f"Authorization: Bearer {TOKEN}\r\nAuthorization: Bearer wrong\r\n"
    request = f"DELETE /api/runs/nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n{both}Connection: close\r\n\r\n"
    assert status(raw(ui, request)) == 401


# ------------------------------------------------------------ deletion


@pytest.mark.parametrize("name", ["gone", "study/row-1/0", "a.b_c-d"])
def test_a_run_is_deleted_by_its_encoded_name(ui: Server, name: str) -> None:
    stored(ui.store, name)
    encoded = name.replace("/", "%2F").replace(".", "%2e")
    assert ui.ask("DELETE", f"/api/runs/{encoded}").status == 401
    assert name in ui.store.statuses()
    assert ui.act("DELETE", f"/api/runs/{encoded}").json == {"deleted": name}
    assert name not in ui.store.statuses()
    assert ui.act("DELETE", f"/api/runs/{encoded}").status == 404


def test_a_study_is_not_deleted_by_the_beginning_of_its_runs_names(ui: Server) -> None:
    stored(ui.store, "kept/row/0")
    assert ui.act("DELETE", "/api/runs/kept").status == 404
    assert ui.act("DELETE", "/api/runs/kept%2Frow").status == 404
    assert "kept/row/0" in ui.store.statuses()


@pytest.mark.parametrize(
    "name", ["..%2f", "..%2f..%2f", "%2e%2e", "..", "a%00b", "a%2F%2Fb", "%F0%9F%A4%96", ""]
)
def test_what_is_no_name_deletes_nothing(ui: Server, name: str) -> None:
    before = sorted(path.name for path in ui.home.iterdir())
    assert ui.act("DELETE", f"/api/runs/{name}").status in (404, 405)
    assert sorted(path.name for path in ui.home.iterdir()) == before


def test_a_run_that_somebody_works_on_is_not_deleted(ui: Server) -> None:
    stored(ui.store, "busy", state="running")
    store = ui.store
    with store.working_on(store["busy"]):
        refused = ui.act("DELETE", "/api/runs/busy")
        assert refused.status == 400 and "is not running" in refused.json["error"]
    assert "busy" in ui.store.statuses()
    log = (ui.home / "actions.jsonl").read_text().splitlines()
    assert '"subject": "busy"' in log[-1] and "refused" in log[-1]


# ------------------------------------------------------------ Host


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "", "10.0.0.1", "a b"]
)
def test_another_host_is_refused_whatever_is_asked(ui: Server, method: str, host: str) -> None:
    for path in ("/", "/api/runs", "/nowhere", "/static/index.html"):
        answer = ui.act(method, path, Host=host.format(port=ui.port))
        assert answer.status == 400 and b"first" not in answer.body


def test_no_host_and_two_hosts_are_refused(ui: Server) -> None:
    assert status(raw(ui, "GET /api/runs HTTP/1.0\r\n\r\n")) == 400
    two = f"Host: 127.0.0.1:{ui.port}\r\nHost: evil.example\r\n"
    assert status(raw(ui, f"GET /api/runs HTTP/1.1\r\n{two}Connection: close\r\n\r\n")) == 400


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:9999", "[::1]:80"])
def test_the_names_of_this_machine_are_ours_whatever_the_port(ui: Server, host: str) -> None:
    """A tunnel (`ssh -L`) has a port of its own."""
    assert ui.ask("GET", "/api/runs", {"Host": host}).status == 200


# ------------------------------------------------------------ private: reading needs the token


def test_a_private_page_is_read_with_the_token_or_its_cookie_only(private: Server) -> None:
    token = private.said[0].partition("#token=")[2]
    with_token = {"Authorization": f"Bearer {token}"}
    for path in ("/", "/api/runs", "/api/events/runs", "/nowhere"):
        for method in ("GET", "HEAD"):
            assert private.ask(method, path).status == 401
            assert private.ask(method, path, {"Authorization": "Bearer wrong"}).status == 401
            assert private.ask(method, path, {"Cookie": f"fedpace={token}"}).status == 401
    assert private.ask("GET", "/api/runs", with_token).status == 200
    answer = private.ask("POST", "/api/session", with_token)
    pair, *attributes = [part.strip() for part in answer.headers["set-cookie"].split(";")]
    assert answer.status == 204 and token not in pair
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(attributes)
    assert private.ask("GET", "/", {"Cookie": pair}).status == 200
    assert private.ask("HEAD", "/api/runs", {"Cookie": f"a=b; {pair}"}).status == 200
    assert private.ask("GET", "/api/runs", {"Cookie": pair[:-1]}).status == 401


def test_the_cookie_changes_nothing(private: Server) -> None:
    token = private.said[0].partition("#token=")[2]
    stored(private.store, "mine")
    cookie = private.ask("POST", "/api/session", {"Authorization": f"Bearer {token}"}).headers["set-cookie"]
    pair = cookie.split(";")[0]
    value = pair.partition("=")[2]
    for headers in ({"Cookie": pair}, {"Cookie": pair, "Authorization": f"Bearer {value}"}):
        assert private.ask("DELETE", "/api/runs/mine", headers).status == 401
        assert private.ask("POST", "/api/session", headers).status == 401
    assert "mine" in private.store.statuses()


def test_no_session_without_the_token_or_from_elsewhere(private: Server) -> None:
    token = private.said[0].partition("#token=")[2]
    assert private.ask("POST", "/api/session").status == 401
    foreign = {"Authorization": f"Bearer {token}", "Origin": "http://evil.example"}
    assert private.ask("POST", "/api/session", foreign).status == 403


def test_the_refused_page_is_one_that_takes_the_token_from_the_address(private: Server) -> None:
    answer = private.ask("GET", "/")
    assert answer.status == 401 and b"enter.js" in answer.body and b"mine" not in answer.body
    assert private.ask("GET", "/static/enter.js").status == 200


# ------------------------------------------------------------ elsewhere, and the options


def test_reading_elsewhere_needs_the_token() -> None:
    here, there = access("127.0.0.1", "t", private=False), access("192.0.2.7", "t", private=False)
    assert here.refused("GET", "/api/runs", [(b"host", b"127.0.0.1")]) is None
    refusal = there.refused("GET", "/api/runs", [(b"host", b"192.0.2.7:8421")])
    assert refusal is not None and refusal.status == 401
    token = (b"authorization", b"Bearer t")
    assert there.refused("GET", "/api/runs", [(b"host", b"192.0.2.7:8421"), token]) is None
    assert there.refused("GET", "/api/runs", [(b"host", b"192.0.2.8"), token]) is not None


def test_a_wildcard_has_every_number_and_no_foreign_name() -> None:
    rules, token = access("0.0.0.0", "t", private=False), (b"authorization", b"Bearer t")
    for host, ours in ((b"192.0.2.9:1", True), (b"[2001:db8::1]:1", True), (b"evil.example", False)):
        assert (rules.refused("GET", "/", [(b"host", host), token]) is None) == ours


def test_what_is_printed(tmp_path: Path) -> None:
    here, there = PageOptions(token="given"), PageOptions("::1", token="given", private=True)
    assert greeting(here, "given", 80, private=False) == "http://127.0.0.1:80/"
    assert greeting(there, "given", 80, private=True) == "http://[::1]:80/#token=given"
    everywhere = greeting(PageOptions("0.0.0.0", token="given"), "given", 80, private=True)
    assert everywhere == f"http://{socket.gethostname()}:80/#token=given"
    made = greeting(PageOptions(), "made", 80, private=False)
    assert made.splitlines()[0] == "http://127.0.0.1:80/" and "#token=made" in made
    (tmp_path / "token").write_text("from-a-file\n")
    assert token_in(str(tmp_path / "token")) == "from-a-file"


@pytest.mark.long
def test_a_token_from_a_file_is_not_printed_on_loopback(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-a-file\n")
    server = ready(started(tmp_path / "home", "--token-file", str(tmp_path / "token")))
    try:
        assert server.said == [f"{server.address}/"]
        with_token = {"Authorization": "Bearer from-a-file"}
        assert server.ask("DELETE", "/api/runs/nothing", with_token).status == 404
    finally:
        ended(server)
    assert server.process.returncode in (0, -15, 143)


@pytest.mark.parametrize(
    "words",
    [
        ["--token", "with space"],
        ["--token", ""],
        ["--token", "a", "--token-file", "b"],
        ["--token-file", "none"],
    ],
)
def test_bad_options_are_one_line(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from fedpace.cli import main

    assert main(["ui", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and "with space" not in printed.err


def test_importing_the_verb_needs_no_server_packages() -> None:
    code = (
        "import sys; from fedpace.cli import main; main(['ui', '--help']); print('starlette' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.rstrip().endswith("False")
