"""The files of a new Flower app."""

from __future__ import annotations

import re
from pathlib import Path

from fedpace.deploy.projects.settings import CLIENT_FILE, RUN_FILE
from fedpace.deploy.projects.templates import CLIENT
from fedpace.disk.files import require_folder, write
from fedpace.errors import require

NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,39}")  # Flower's own rule

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "1.0.0"
description = "Asynchronous federated learning with fedpace"
license = "Apache-2.0"
dependencies = ["fedpace[flower]"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "fedpace"

[tool.flwr.app.components]
serverapp = "server_app:app"
clientapp = "client_app:app"

[tool.flwr.app.config]   # flwr run . --run-config "rounds=10 in-order=true"
name = "{name}"
folder = ""              # where runs and clients' states lie; empty: flower/{name} in FEDPACE_HOME
algorithm = ""           # empty: as run.toml says
rounds = 0               # 0: as run.toml says
in-order = false         # take a cohort's updates by client number
"""

RUN = """\
# The configuration shared by server and clients. `fedpace list` shows algorithms and their parameters.

[run]
algorithm = "fedbuff(buffer=2, concurrency=4, client_lr=0.1, server_lr=1.0, epochs=1, batch_size=10)"
clients = 4           # maximum number of clients (SuperNodes), numbered from 0
wait_for = 4          # so many join before the first model is sent
rounds = 10           # server steps
seed = 0
evaluate = "auto"     # server if client.py has server_data(), else clients; or "server", "clients", "both"
"""

SERVER_APP = '''\
"""The server, configured by run.toml and client.py in this folder."""

from fedpace.deploy.flower import server_app

app = server_app(__file__)
'''

CLIENT_APP = '''\
"""A client, with model and data from client.py in this folder."""

from fedpace.deploy.flower import client_app

app = client_app(__file__)
'''

README = """\
# {name}

| file | content |
|---|---|
| `run.toml` | the algorithm, the number of clients and server steps |
| `client.py` | the model, the loss and a function that returns a client's own data |
| `server_app.py`, `client_app.py` | Flower's entry points; nothing to change |
| `pyproject.toml` | the Flower app and its configuration |

    export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1             # fedpace is already installed
    flwr run {name} --stream --federation-config "num-supernodes=4"   # in Flower's simulation
    flwr run {name} REMOTE --stream                                   # on the SuperNodes of a SuperLink

The same command resumes a run that ended early. Each SuperNode's node config gives its client number:

    flower-supernode --superlink HOST:PORT --root-certificates ca.crt --node-config 'client=0 folder="state"'
"""


def new_app(folder: str | Path) -> list[Path]:
    """Write the files of a Flower app; the files."""
    place = Path(folder)
    name = place.resolve().name
    fits = NAME.fullmatch(name) is not None
    require(fits, "the name of a Flower app", name, "a letter, then at most 39 letters, digits and hyphens")
    require(not (place / RUN_FILE).exists(), "a new app", str(folder), "a folder without run.toml")
    require_folder(place, "the app's folder")
    texts = {
        "pyproject.toml": PROJECT.format(name=name),
        RUN_FILE: RUN,
        CLIENT_FILE: CLIENT,
        "server_app.py": SERVER_APP,
        "client_app.py": CLIENT_APP,
        "README.md": README.format(name=name),
    }
    for file, text in texts.items():
        write(place / file, text.encode())
    return [place / file for file in texts]
