"""The same machines on real clients: drivers by the real clock, over a network.

serve, serve_async     the server: journal, checkpoints, steps
join, join_async       a client, with its own data
replay                 the run again from its journal, offline
"""

from fedpace.deploy.expectations import Patience
from fedpace.deploy.journal.disk_journal import JournalLimits
from fedpace.deploy.measures import model_sha256
from fedpace.deploy.owner import Owner
from fedpace.deploy.replay import Replay, replay
from fedpace.deploy.running import join, join_async, serve, serve_async

__all__ = [
    "JournalLimits",
    "Owner",
    "Patience",
    "Replay",
    "join",
    "join_async",
    "model_sha256",
    "replay",
    "serve",
    "serve_async",
]
