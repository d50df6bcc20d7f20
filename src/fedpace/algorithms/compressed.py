"""Compressed and lazy communication, up and down.

FedCAMS: Wang, Lin & Chen, ICML 2022. LAG: Chen, Giannakis, Sun & Yin, NeurIPS 2018.
FedNLAA, FedAA, FedNLACA, FedACA, FedBNLACA, FedBACA:
"Bidirectional communication-efficient non-convex adaptive federated learning".

`mode="as_published"` is the realisable reading: a value is reused only if the receiver holds it.
`mode="literal"` is the listing to the letter, for simulation only: it uses values that never crossed the link.
"""

from __future__ import annotations

import warnings

from fedpace.algorithm import Algorithm
from fedpace.algorithms.parts import CodecLike, Epochs, Select, Steps, codec_of, local, synchronous, weighted
from fedpace.errors import require
from fedpace.link import Dense, ErrorFeedback, Lazy, Literal, Plain
from fedpace.server_opt import AMSGrad, Momentum

MODES = ("as_published", "literal")
LITERAL_WARNING = (
    'mode="literal" uses values that were not transmitted: its savings exist in simulation only; '
    'mode="as_published" is the nearest protocol that can be run'
)


def _reference(mode: str, rule: str) -> str:
    """What a fresh value is compared with."""
    require(mode in MODES, "mode", mode, " or ".join(MODES))
    if mode == "literal":
        warnings.warn(LITERAL_WARNING, UserWarning, stacklevel=4)
    return "raw" if mode == "literal" and rule == "nla" else "held"


def _lazy(
    rule: str, tau: float, max_staleness: int | None, mode: str, codec: CodecLike | None, memory: str | None
) -> Lazy:
    """A lazy uplink; around error feedback where something is compressed."""
    link: Plain | ErrorFeedback = Plain(Dense())
    if codec is not None:
        # judged is the listing; with AA it takes every acceleration back, so fresh is the reading to run
        link = ErrorFeedback(codec_of(codec), memory or ("fresh" if rule == "aa" else "judged"))
    return Lazy(rule, tau, max_staleness, link, _reference(mode, rule))


def _down(codec: CodecLike, rule: str, tau: float, mode: str) -> Literal:
    """The listing's downlink: it compresses the model itself."""
    return Literal(codec_of(codec), rule, tau, "zero" if mode == "literal" else "dense")


def fedcams(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    codec: CodecLike = "topk:1/64",
    server_lr: float = 0.03,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-3,
    option: int = 1,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """FedAMS with a compressed uplink and error feedback."""
    return Algorithm(
        name="fedcams",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size),
        up=ErrorFeedback(codec_of(codec)),
        aggregate=weighted(weighting),
        server_opt=AMSGrad(server_lr, b1, b2, eps, option),
    )


def lag(
    client_lr: float = 0.1,
    steps: Steps = 1,
    epochs: Epochs = None,
    batch_size: int | None = None,
    tau: float = 1.0,
    max_staleness: int | None = 10,
    server_lr: float = 1.0,
    weighting: str = "uniform",
) -> Algorithm:
    """Everybody every round, but a client whose update hardly changed sends nothing and the old one is used."""
    return Algorithm(
        name="lag",
        pace=synchronous(None, "uniform"),
        local=local(client_lr, steps, epochs, batch_size),
        up=Lazy("lag", tau, max_staleness),
        aggregate=weighted(weighting),
        server_opt=Momentum(server_lr),
    )


def fednlaa(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    tau: float = 0.5,
    max_staleness: int | None = 10,
    mode: str = "as_published",
    server_lr: float = 0.03,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-3,
    option: int = 1,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """FedAMS whose clients skip an upload that hardly changed (Algorithm 1, NLA)."""
    return Algorithm(
        name="fednlaa",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size),
        up=_lazy("nla", tau, max_staleness, mode, None, None),
        aggregate=weighted(weighting),
        server_opt=AMSGrad(server_lr, b1, b2, eps, option),
    )


def fedaa(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    tau: float = 0.1,
    max_staleness: int | None = 10,
    mode: str = "as_published",
    server_lr: float = 0.03,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-3,
    option: int = 1,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """FedAMS that applies the previous update too when the new one agrees with it (Algorithm 1, AA)."""
    return Algorithm(
        name="fedaa",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size),
        up=_lazy("aa", tau, max_staleness, mode, None, None),
        aggregate=weighted(weighting),
        server_opt=AMSGrad(server_lr, b1, b2, eps, option),
    )


def fednlaca(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    codec: CodecLike = "topk:1/8",
    tau: float = 0.5,
    memory: str | None = None,
    max_staleness: int | None = 10,
    mode: str = "as_published",
    server_lr: float = 0.03,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-3,
    option: int = 1,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """FedCAMS whose clients skip an upload that hardly changed (Algorithm 3, NLA)."""
    return Algorithm(
        name="fednlaca",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size),
        up=_lazy("nla", tau, max_staleness, mode, codec, memory),
        aggregate=weighted(weighting),
        server_opt=AMSGrad(server_lr, b1, b2, eps, option),
    )


def fedaca(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    codec: CodecLike = "topk:1/8",
    tau: float = 0.1,
    memory: str | None = None,
    max_staleness: int | None = 10,
    mode: str = "as_published",
    server_lr: float = 0.03,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-3,
    option: int = 1,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """FedCAMS that applies the previous update too when the new one agrees with it (Algorithm 3, AA)."""
    return Algorithm(
        name="fedaca",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size),
        up=_lazy("aa", tau, max_staleness, mode, codec, memory),
        aggregate=weighted(weighting),
        server_opt=AMSGrad(server_lr, b1, b2, eps, option),
    )


def fedbnlaca(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    codec: CodecLike = "topk:1/8",
    down_codec: CodecLike = "topk:1/8",
    tau: float = 0.5,
    tau_down: float = 0.0,
    memory: str | None = None,
    max_staleness: int | None = 10,
    mode: str = "as_published",
    server_lr: float = 0.03,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-3,
    option: int = 1,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """FedNLACA whose downlink compresses the model with an error memory per client (Algorithm 2, NLA)."""
    return Algorithm(
        name="fedbnlaca",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size),
        up=_lazy("nla", tau, max_staleness, mode, codec, memory),
        down=_down(down_codec, "nla", tau_down, mode),
        aggregate=weighted(weighting),
        server_opt=AMSGrad(server_lr, b1, b2, eps, option),
    )


def fedbaca(
    client_lr: float = 0.1,
    steps: Steps = None,
    epochs: Epochs = None,
    batch_size: int | None = 10,
    clients_per_round: int | None = None,
    codec: CodecLike = "topk:1/8",
    down_codec: CodecLike = "topk:1/8",
    tau: float = 0.1,
    tau_down: float = 0.0,
    memory: str | None = None,
    max_staleness: int | None = 10,
    mode: str = "as_published",
    server_lr: float = 0.03,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-3,
    option: int = 1,
    weighting: str = "uniform",
    select: Select = "uniform",
) -> Algorithm:
    """FedACA whose downlink compresses the model with an error memory per client (Algorithm 2, AA)."""
    return Algorithm(
        name="fedbaca",
        pace=synchronous(clients_per_round, select),
        local=local(client_lr, steps, epochs, batch_size),
        up=_lazy("aa", tau, max_staleness, mode, codec, memory),
        down=_down(down_codec, "aa", tau_down, mode),
        aggregate=weighted(weighting),
        server_opt=AMSGrad(server_lr, b1, b2, eps, option),
    )
