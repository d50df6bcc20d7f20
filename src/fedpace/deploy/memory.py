"""What a client keeps on its disk: its state after it began a session and after it encoded one, before it sends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fedpace.deploy.messages import Envelope
from fedpace.deploy.participant import Participant
from fedpace.deploy.reaction import Remembered
from fedpace.disk import files
from fedpace.errors import CheckpointError, ConfigError
from fedpace.record.store import checkpoint
from fedpace.record.store.snapshot import ADAPTERS, client_template
from fedpace.record.store.tree import pack, unpack
from fedpace.untrusted import Whole, fits

NAME = "client.safetensors"
_HEAD = {"run": str, "plan": str, "seed": Whole}


class ClientMemory:
    """One file in a folder, whole at every moment. `damaged` says why an unreadable one was left out."""

    def __init__(self, folder: str | Path) -> None:
        self.path = files.require_folder(folder, "a client's folder") / NAME
        self.damaged = ""

    def save(self, participant: Participant) -> None:
        """Training under way is not kept: a machine that restarts begins again with the model it is sent."""
        memory = participant.memory
        client = replace(memory.client, running=None, outbox=None, inbox=None, own=None)
        head = {
            "run": participant.envelope.run.hex(),
            "plan": participant.plan_text,
            "seed": participant.seed,
        }
        tree = pack(replace(memory, client=client), _template(participant), ADAPTERS)
        files.write(self.path, checkpoint.encode(tree, head))

    def load(self, participant: Participant) -> None:
        """Put it back; a file that is missing or damaged leaves a client that lost its disk."""
        if not self.path.exists():
            return
        try:
            head, tree = checkpoint.read(self.path)
            if not fits(head, _HEAD):
                raise CheckpointError("its head is of another kind")
            plan = participant.owner.read(head["plan"])
            run = bytes.fromhex(head["run"])
            participant.plan_text, participant.seed = plan.text, head["seed"]
            participant.adopt(plan.algorithm, participant.seed)
            participant.memory = unpack(tree, _template(participant), ADAPTERS)
            participant.envelope = Envelope(run, plan.digest)
        except (CheckpointError, ConfigError, ValueError) as error:
            self.damaged = str(error)


def _template(participant: Participant) -> Remembered:
    plan = participant.owner.read(participant.plan_text)
    initial = participant.task.initial(participant.seed)
    return Remembered(client=client_template(plan.algorithm.bound(participant.task.layout), initial))
