"""Our own: model differences down, lazy error feedback up, any server optimizer, any pacing."""

from __future__ import annotations

from fedpace.algorithm import Algorithm
from fedpace.algorithms.parts import CodecLike, Epochs, Select, Steps, codec_of, local, synchronous, weighted
from fedpace.errors import require
from fedpace.link import EF21, Difference, ErrorFeedback, Lazy
from fedpace.link.protocol import Uplink
from fedpace.pace import Arrivals, Buffered, Pace, Polled, selection
from fedpace.server_opt import AMSGrad
from fedpace.server_opt.protocol import ServerOpt


def two_way(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    pace: str | Pace = "rounds",
    buffer: int = 10,
    concurrency: int | None = 20,
    draws: int = 10,
    codec: CodecLike = "topk:1/64",
    down_codec: CodecLike = "topk:1/64",
    memory: str = "ef",
    tau: float = 0.0,
    tau_down: float = 0.0,
    max_staleness: int | None = 10,
    reference: str = "auto",
    first: str = "seed",
    per_tensor: bool = False,
    server_lr: float = 0.03,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-3,
    option: int = 1,
    server_opt: ServerOpt | None = None,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """Compressed in both directions: only what the client's model lacks goes down, with error feedback up.

    Down, each client is sent the largest entries of what its model lacks, so the residual is the memory and nothing
    can build up. A new client makes the initial model from the seed; `first="dense"` sends it instead, for models
    that no seed can make. Up, `memory="ef"` is error feedback and `"ef21"` the difference to an estimate that both
    ends hold; with `tau` > 0 an upload that hardly changed is skipped.
    `pace` is rounds, buffered, polled, arrivals or a rule.
    """
    return Algorithm(
        name="two_way",
        pace=_pace(pace, clients_per_round, buffer, concurrency, draws, select),
        local=local(client_lr, steps, epochs, batch_size),
        up=_up(codec, memory, tau, max_staleness),
        down=Difference(codec_of(down_codec), tau_down, reference, first=first),
        aggregate=weighted(weighting),
        per_tensor=per_tensor,
        server_opt=AMSGrad(server_lr, b1, b2, eps, option) if server_opt is None else server_opt,
    )


def _up(codec: CodecLike, memory: str, tau: float, max_staleness: int | None) -> Uplink:
    require(memory in ("ef", "ef21"), "memory", memory, "ef or ef21")
    link = EF21(codec_of(codec)) if memory == "ef21" else ErrorFeedback(codec_of(codec))
    return Lazy("nla", tau, max_staleness, link) if tau != 0 else link


def _pace(
    pace: str | Pace,
    clients_per_round: int | None,
    buffer: int,
    concurrency: int | None,
    draws: int,
    select: Select,
) -> Pace:
    if not isinstance(pace, str):
        return pace
    rules: dict[str, Pace] = {
        "rounds": synchronous(clients_per_round, select),
        "buffered": Buffered(buffer, concurrency, "batch", selection(select)),
        "polled": Polled(draws),
        "arrivals": Arrivals(buffer),
    }
    require(pace in rules, "pace", pace, "one of " + ", ".join(rules) + ", or a pacing rule")
    return rules[pace]
