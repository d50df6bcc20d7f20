"""The production recipe of examples/flower, on loopback: TLS, node keys, a database, a proxy to the fleet alone."""

from __future__ import annotations

import http.client
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.flower.stage import PROGRAMS, Stage, free_port, wait_until
from tests.flower.test_simulation import ROUNDS, SYNCHRONOUS

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("nginx", path="/usr/sbin:/usr/bin") is None, reason="nginx is not there"),
]
RECIPE = Path(__file__).parents[2] / "examples" / "flower" / "production"


class Production(Stage):
    """A SuperLink behind nginx; `public` is the proxy's port."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lighten()
        self.public, self.etc = free_port(), folder / "etc"
        subprocess.run([RECIPE / "certificates.sh", self.etc, "fl.example.org"], check=True)
        self.root = self.etc / "ca.crt"
        self.connect("stage", self.port, self.root)

    @property
    def secret(self) -> tuple[str, ...]:
        return ("--superexec-auth-secret-file", str(self.etc / "superexec.secret"))

    def open(self) -> None:
        server = (
            "--ssl-certfile",
            str(self.etc / "server.crt"),
            "--ssl-keyfile",
            str(self.etc / "server.key"),
        )
        secure = (*server, "--ssl-ca-certfile", str(self.root))
        kept = ("--database", str(self.folder / "state.db"), "--isolation", "process")
        self.superlink(*kept, *self.secret, "--enable-supernode-auth", secure=secure)
        runtime = ("--runtime-api-address", f"127.0.0.1:{self.port}", "--root-certificates", str(self.root))
        self.start("superexec", "flower-superexec", *runtime, *self.secret)
        self.proxy()

    def proxy(self) -> None:
        """The recipe's configuration, but for its places and ports."""
        text = (RECIPE / "fleet.conf").read_text(encoding="utf-8")
        text = text.replace("listen 443", f"listen 127.0.0.1:{self.public}")
        text = text.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}")
        text = text.replace("/etc/fedpace", str(self.etc))
        spool = " ".join(
            f"{kind}_temp_path {self.folder / 'spool' / kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        around = f"daemon off; pid {self.folder / 'nginx.pid'}; error_log stderr; events {{}}\n"
        (self.folder / "spool").mkdir()
        whole = f"{around}http {{ access_log off; {spool}\n{text}}}\n"
        (self.folder / "nginx.conf").write_text(whole, encoding="utf-8")
        self.start("nginx", "/usr/sbin/nginx", "-p", str(self.folder), "-c", str(self.folder / "nginx.conf"))
        wait_until(lambda: self.status("POST", "/") == 403, "nginx")

    def status(self, method: str, path: str) -> int:
        """What the proxy answers to a stranger."""
        context = ssl.create_default_context(cafile=str(self.root))
        line = http.client.HTTPSConnection("127.0.0.1", self.public, context=context, timeout=30)
        try:
            line.request(method, path, body=b"")
            return line.getresponse().status
        except OSError:
            return 0
        finally:
            line.close()

    def key(self, name: str) -> Path:
        path = self.folder / name
        words = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(path)]
        subprocess.run(words, check=True)
        return path

    def register(self, key: Path, port: int) -> subprocess.CompletedProcess[str]:
        """`flwr supernode register`, which asks for no credentials, through this port."""
        self.connect("stage", port, self.root)
        words = [str(PROGRAMS / "flwr"), "supernode", "register", f"{key}.pub", "stage"]
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, cwd=self.folder)
        self.connect("stage", self.port, self.root)
        return done

    def member(self, client: int, key: Path) -> None:
        """A SuperNode that reaches the proxy only."""
        secure = ("--root-certificates", str(self.root))
        direct, self.port = self.port, self.public
        self.supernode(client, "--auth-supernode-private-key", str(key), secure=secure)
        self.port = direct


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Production]:
    made = Production(tmp_path_factory.mktemp("production"))
    made.open()
    yield made
    made.close()


def test_a_stranger_registers_a_key_where_the_port_is_open_and_not_through_the_proxy(
    production: Production,
) -> None:
    key = production.key("stranger")
    refused = production.register(key, production.public)
    assert refused.returncode != 0 and "registered successfully" not in refused.stdout
    taken = production.register(key, production.port)
    assert taken.returncode == 0 and "registered successfully" in taken.stdout


@pytest.mark.parametrize(
    "path",
    [
        "/v1/control/register-node",
        "/v1/control/start-run",
        "/v1/runtime/pull-task-input",
        "/v1/fleet/../control/register-node",
        "/v1/fleet/%2e%2e/control/register-node",
        "/v1/fleet/..%2fcontrol/register-node",
        "//v1/control/register-node",
        "/v1/fleet",
        "/health",
    ],
)
def test_the_proxy_shows_nothing_but_the_fleet(path: str, production: Production) -> None:
    assert production.status("POST", path) in (301, 403)


def test_a_node_without_a_registered_key_is_refused(production: Production) -> None:
    production.member(9, production.key("unknown"))
    assert production.processes["node-9"].wait(timeout=120) != 0
    assert "node-9" in production.processes and "305" in production.said("node-9")
    del production.processes["node-9"]


def test_registered_nodes_train_through_the_proxy(
    production: Production,
) -> None:
    for client in range(4):
        key = production.key(f"member-{client}")
        assert production.register(key, production.port).returncode == 0
        production.member(client, key)
    production.begin("study", SYNCHRONOUS["fedavg"], ROUNDS, in_order=True)
    production.finished("study")
    again = production.replayed("study")
    assert again.different == ()
    assert again.run.model.tobytes() == production.simulated(SYNCHRONOUS["fedavg"], ROUNDS)
