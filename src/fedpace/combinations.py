"""Rules that cannot be combined, and why: the refusal code, a test and a page of the manual in one table.

Everything that is not in this table is allowed, published or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpace.aggregate import Cached, DynamicMean, Mean, Mixing, Normalised, PerStep, Pooled, Weighted
from fedpace.errors import ConfigError, require, require_flag
from fedpace.link import Lazy, LazyModel, Plain
from fedpace.local import SGD, Ditto, DynamicTerm
from fedpace.pace import (
    Arrivals,
    Buffered,
    ByShare,
    Immediate,
    Interrupting,
    Poisson,
    Polled,
    Replayed,
    Rounds,
    Uniform,
    WithReplacement,
)

if TYPE_CHECKING:
    from fedpace.algorithm import Algorithm

RULES = (  # fields of Algorithm
    *("local", "pace", "up", "down", "aggregate", "server_opt", "correction", "personal"),
)
KINDS = {
    "pace": "dispatch",
    "aggregate": "add",
    "server_opt": "apply",
}  # a field of Algorithm, and a method that its rules have


@dataclass(frozen=True, slots=True)
class Refusal:
    """A combination that has no meaning."""

    what: str
    why: str
    instead: str
    applies: Callable[[Algorithm], bool]


def _averaging(a: Algorithm) -> bool:
    return isinstance(a.pace, Interrupting) and a.pace.averaging


def _keeps(a: Algorithm) -> bool:
    """Local training keeps something on the client from one session to the next."""
    return a.personal is not None or _keeps_state(a)


def _keeps_state(a: Algorithm) -> bool:
    return bool(getattr(a.local, "keep_state", False))


def _lacks_pull(a: Algorithm) -> bool:
    """Its personalisation pulls to a model, and the local rule cannot."""
    plain = isinstance(a.local, SGD) and a.local.momentum == 0
    if isinstance(a.personal, Ditto):
        return not plain and a.personal.local is None
    return isinstance(a.personal, DynamicTerm) and not (plain and a.local.prox_mu > 0)


def _half_dynamic(a: Algorithm) -> bool:
    """One half of FedDyn without the other, or updates that arrive otherwise than they were made."""
    halves = isinstance(a.personal, DynamicTerm), isinstance(a.aggregate, DynamicMean)
    exact = a.uplink == Plain() and a.privacy is None
    return any(halves) and not (all(halves) and exact and isinstance(a.pace, Rounds))


def _repeats(a: Algorithm) -> bool:
    """A client may train from a model that it, or the server, has left behind."""
    return isinstance(a.pace, Replayed) or bool(getattr(a.pace, "reuse_model", False))


def _own_models(a: Algorithm) -> bool:
    """Each client reconstructs a model of its own (per-client downlink references)."""
    return not a.downlink.shared


def _remembers(a: Algorithm) -> bool:
    """The uplink has state, earlier values of a client: lazy rules, EF21, error feedback."""
    return a.uplink.init(1, np.dtype(np.float64)) is not None


def _steps_change(a: Algorithm) -> bool:
    """One client's sessions differ in their number of steps."""
    steps = getattr(a.local, "steps", None)
    by_round = isinstance(steps, tuple) and isinstance(steps[0], tuple)
    return by_round or getattr(a.local, "random_work", False) or isinstance(a.pace, Interrupting)


def _judges_by_steps(a: Algorithm) -> bool:
    """LAG: a change is compared with the last steps of the server."""
    return getattr(a.uplink, "rule", "") == "lag" or isinstance(a.down, LazyModel)


def _selects(a: Algorithm, *rules: type[Any]) -> bool:
    return isinstance(getattr(a.pace, "select", None), rules)


def _private(a: Algorithm, *aggregations: type[Any]) -> bool:
    return a.privacy is not None and (not aggregations or isinstance(a.aggregate, aggregations))


def _counts_twice(a: Algorithm) -> bool:
    """One client may be in a step more than once."""
    refills = isinstance(a.pace, Buffered) and a.pace.dispatch_mode == "immediate" and a.pace.buffer > 1
    piles_up = isinstance(a.pace, Arrivals) and not a.pace.distinct
    return refills or piles_up or _selects(a, WithReplacement, ByShare)


def _sampled(a: Algorithm) -> bool:
    """Sampling hides who takes part."""
    return isinstance(a.pace, Rounds) and _selects(a, Uniform, Poisson)


REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        "selection by sample share, and weighting by samples",
        "both count a client's samples, so large clients would count twice over",
        'use select="share" with weighting="uniform" (scheme A), or "uniform" with "samples" (scheme B)',
        lambda a: (
            _selects(a, ByShare)
            and (
                isinstance(a.aggregate, Weighted)
                or (isinstance(a.aggregate, Normalised) and a.aggregate.weighting == "samples")
            )
        ),
    ),
    Refusal(
        "buffered or immediate pacing, and selection with replacement",
        "an active client would be sent a second model",
        'use select="uniform", which draws among the clients that are not active',
        lambda a: isinstance(a.pace, Buffered | Immediate) and _selects(a, WithReplacement, ByShare),
    ),
    Refusal(
        "an uplink with state, and division by a client's steps (Normalised, PerStep) where these change",
        "what it sends again, or late, came from sessions of other lengths than the one it is divided by",
        "use a fixed number of steps or epochs for each client, a codec alone, or Mean",
        lambda a: isinstance(a.aggregate, Normalised | PerStep) and _remembers(a) and _steps_change(a),
    ),
    Refusal(
        "normalised averaging, and a local rule without known gradient weights",
        "there is no ||a||_1 to divide by",
        "use fedpace.local.SGD, or give the rule an `a_norm1(k)`",
        lambda a: isinstance(a.aggregate, Normalised) and not hasattr(a.local, "a_norm1"),
    ),
    Refusal(
        "a correction, and a local rule without known gradient weights",
        "the mean gradient is the update divided by client_lr ||a||_1",
        "use fedpace.local.SGD",
        lambda a: a.correction is not None and not hasattr(a.local, "a_norm1"),
    ),
    Refusal(
        "an aggregation rule that compares updates (Krum), and steps of fewer updates than it needs",
        "with f hostile updates among fewer than 2 f + 3 the closest ones need not be honest",
        "ask for fewer hostile clients, or take more updates per step",
        lambda a: a.pace.per_step is not None and getattr(a.aggregate, "fewest", 0) > a.pace.per_step,
    ),
    Refusal(
        "a correction, and interrupting pacing",
        "an interrupted session may have taken no step, and then has no mean gradient",
        "use a pacing whose sessions end by themselves",
        lambda a: a.correction is not None and isinstance(a.pace, Interrupting),
    ),
    Refusal(
        "personalisation, and a correction, or kept optimizer state",
        "a control variate, or an optimizer's moments, would belong to two models at once",
        "use one of them",
        lambda a: a.personal is not None and (a.correction is not None or _keeps_state(a)),
    ),
    Refusal(
        "a proximal term of personalisation (Ditto, DynamicTerm), and local training that has no such term",
        "its pull belongs to plain SGD steps, outside of any momentum",
        "use SGD without momentum; for DynamicTerm with prox_mu > 0",
        lambda a: _lacks_pull(a),
    ),
    Refusal(
        "one of FedDyn's halves (DynamicTerm, DynamicMean), and anything but the other in rounds of exact updates",
        "the server's sum must be that of the clients' linear terms",
        "use both with Rounds, without compression on the uplink and without privacy",
        lambda a: _half_dynamic(a),
    ),
    Refusal(
        "memory kept by local training, and pacing that cuts sessions short or repeats models "
        "(Interrupting, Replayed, reuse_model)",
        "what a client keeps would come from part of a session, or be newer than the model it is used with",
        "use a pacing whose sessions start from the newest model and end by themselves",
        lambda a: _keeps(a) and (isinstance(a.pace, Interrupting) or _repeats(a)),
    ),
    Refusal(
        "mutual averaging (QuAFL), and any aggregation but Pooled(rescale=None)",
        "clients send whole models, not displacements",
        "use Interrupting(averaging=False)",
        lambda a: _averaging(a) and a.aggregate != Pooled(None),
    ),
    Refusal(
        "mutual averaging (QuAFL), and an uplink with state",
        "clients send whole models: an earlier one cannot be reused, nor an error carried over",
        "use a codec alone",
        lambda a: _averaging(a) and _remembers(a),
    ),
    Refusal(
        "a downlink with a reference per client, and aggregation against the start model (Mixing, Pooled)",
        "the server measures against the published model, which no client has exactly",
        "send the whole model down, or use Mean",
        lambda a: _own_models(a) and isinstance(a.aggregate, Mixing | Pooled),
    ),
    Refusal(
        "a downlink with references, and pacing that sends past or mutual models (Replayed, Interrupting)",
        "a reference can only move forward with the newest model",
        "send the whole model down",
        lambda a: _own_models(a) and isinstance(a.pace, Replayed | Interrupting),
    ),
    Refusal(
        "the LAG rule, and anything but rounds of all clients",
        "its threshold assumes the sum over all clients at every step",
        'use the "nla" rule, or Rounds(clients_per_round=None)',
        lambda a: (
            _judges_by_steps(a) and not (isinstance(a.pace, Rounds) and a.pace.clients_per_round is None)
        ),
    ),
    Refusal(
        "Poisson sampling, and anything but rounds",
        "cohorts of random size fit neither a number of places nor a number of draws",
        'use Rounds, or select="uniform"',
        lambda a: _selects(a, Poisson) and not isinstance(a.pace, Rounds),
    ),
    Refusal(
        "privacy, and cached calibration (Cached)",
        "a client's cached update moves the model in steps it takes no part in, which no accountant counts",
        "use Mean",
        lambda a: _private(a, Cached),
    ),
    Refusal(
        "privacy, and averaging by local work (Normalised, PerStep)",
        "one client's number of steps scales the updates of all others",
        "average with Mean",
        lambda a: _private(a, Normalised, PerStep),
    ),
    Refusal(
        "privacy, and aggregation against the start model (Mixing, Pooled)",
        "what is added is not the client's clipped update",
        "add updates with Mean",
        lambda a: _private(a, Mixing, Pooled),
    ),
    Refusal(
        "privacy, and any aggregation but a sum of clipped updates (the robust rules among them)",
        "how far one client moves a median, or a choice of updates, is not bounded by its clip",
        "use Mean, or Weighted with a sample_limit",
        lambda a: _private(a) and not isinstance(a.aggregate, Mean | Weighted),
    ),
    Refusal(
        "privacy, and weighting by samples without a limit",
        "one client's samples would decide how much it counts",
        "use ClientDP(sample_limit=...): a client counts min(n, limit) / limit",
        lambda a: _private(a, Weighted) and a.privacy.sample_limit is None,  # type: ignore[union-attr]
    ),
    Refusal(
        "privacy, and a correction",
        "the control vector beside the update is neither clipped with it nor accounted for",
        "use an algorithm without control variates",
        lambda a: _private(a) and a.correction is not None,
    ),
    Refusal(
        "privacy, and a lazy uplink",
        "a held value counts again in steps for which the client computed nothing",
        "use a codec, with or without error feedback: updates are clipped after decoding",
        lambda a: _private(a) and isinstance(a.uplink, Lazy),
    ),
    Refusal(
        "privacy, and pacing in which a client can count twice in a step",
        "its two updates together are longer than the clip",
        'use select="uniform", dispatch="batch" or Arrivals(distinct=True)',
        lambda a: _private(a) and _counts_twice(a),
    ),
    Refusal(
        "a limit of contributions, and rounds of sampled clients",
        "sampling hides a client only if it can be drawn in every round",
        "leave contributions out: epsilon counts the rounds",
        lambda a: (
            a.privacy is not None
            and a.privacy.contributions is not None
            and not a.privacy.tree
            and _sampled(a)
        ),
    ),
    Refusal(
        "privacy by trees, and pacing that does not choose who starts (Polled, Arrivals, Interrupting)",
        "a client may contribute once per tree, and what it computes after that would be lost",
        'use rounds or buffered pacing, or mechanism="gaussian"',
        lambda a: (
            a.privacy is not None and a.privacy.tree and isinstance(a.pace, Polled | Arrivals | Interrupting)
        ),
    ),
)


def refuse_impossible(algorithm: Algorithm) -> None:
    """Raise ConfigError for a value that is not a rule, and for the first refusal that applies."""
    for place in RULES:
        rule = getattr(algorithm, place)
        written = getattr(rule, "__name__", "")
        require(not isinstance(rule, type), place, rule, f"a value, with its brackets: {written}(...)")
    for place, method in KINDS.items():
        rule = getattr(algorithm, place)
        require(hasattr(rule, method), place, rule, f"a rule of fedpace.{place}")
    kept = algorithm.personal is None or hasattr(algorithm.personal, "train")
    require(kept, "personal", algorithm.personal, "a rule such as fedpace.local.Private('head.*'), or None")
    require_flag(algorithm.per_tensor, "per_tensor")
    for refusal in REFUSALS:
        if refusal.applies(algorithm):
            raise ConfigError(f"{refusal.what}, cannot be combined: {refusal.why}; {refusal.instead}")


def manual() -> str:
    """The page of the manual, in Markdown."""
    rows = "".join(f"| {r.what} | {r.why} | {r.instead} |\n" for r in REFUSALS)
    return (
        "# What cannot be combined\n\n"
        "Any pacing goes with any link, any aggregation, any server optimizer and any local rule, except:\n\n"
        f"| these together | because | instead |\n|---|---|---|\n{rows}"
    )
