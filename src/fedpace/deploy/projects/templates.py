"""The files of a new study."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from fedpace.deploy.identity.enrolment import Identities
from fedpace.deploy.projects.settings import CLIENT_FILE, RUN_FILE
from fedpace.disk.files import require_folder, write
from fedpace.errors import require

IDENTITIES = "identities"

RUN = """\
# The configuration shared by server and clients. `fedpace list` shows algorithms and their parameters.

[run]
algorithm = "fedbuff(buffer=2, concurrency=4, client_lr=0.1, server_lr=1.0, epochs=1, batch_size=10)"
clients = 4           # maximum number of clients
rounds = 30           # server steps
seed = 0
evaluate = "auto"     # server if client.py has server_data(), else clients; or "server", "clients", "both"

[server]
listen = "{listen}"   # address on which the server listens
address = "{address}"  # address at which clients reach it: host name or IP address, and port
"""

CLIENT = '''\
"""The client: model, loss and this machine's own data."""

from sklearn.datasets import load_digits
from torch import float32, nn, tensor

loss = nn.CrossEntropyLoss()

def model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

def data(client):  # replace with your own: training set, or (training set, test set)
    x, y = (tensor(part[client::8]) for part in load_digits(return_X_y=True))
    x = x.to(float32) / 16
    return (x[40:], y[40:]), (x[:40], y[:40])
'''

README = """\
# {name}

| file | content |
|---|---|
| `run.toml` | the algorithm, the number of clients and server steps, the server's address |
| `client.py` | the model, the loss and a function that returns a machine's own data |
| `identities/` | the study's certificate authority; `authority.key` signs clients' certificates, keep it secret |
| `runs/` | journals and checkpoints of the server |

    fedpace deploy try {name} -n 4                  # server and four clients on this machine
    fedpace deploy request hospital-a               # on a client: creates its key and a request
    fedpace deploy enrol hospital-a.request --study {name} --client 0    # on the server: signs it, writes a bundle
    fedpace serve {name}                            # the server; the same command resumes it
    fedpace join client-0.bundle --data client.py   # on the client, with its key next to the bundle
    fedpace replay {name}                           # replays the run from its journal, offline
"""


def new_study(folder: str | Path, address: str, also: list[str], now: datetime) -> list[Path]:
    """Write run.toml, client.py, README.md and the identities of a new study; the files."""
    place = Path(folder)
    require(not (place / RUN_FILE).exists(), "a new study", str(folder), "a folder without run.toml")
    require_folder(place, "the study's folder")
    Identities(place / IDENTITIES).create(place.resolve().name, address, also, now)
    texts = {
        RUN_FILE: RUN.format(listen=address, address=address),
        CLIENT_FILE: CLIENT,
        "README.md": README.format(name=place.resolve().name),
        ".gitignore": f"{IDENTITIES}/\nruns/\n",
    }
    for name, text in texts.items():
        write(place / name, text.encode())
    return [place / name for name in texts]
