"""From an algorithm to the theorems that are about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedpace.aggregate import Cached, Mean, Normalised, PerStep, Weighted
from fedpace.aggregate.expected import ExpectedWork, expected_work
from fedpace.algorithm import Algorithm
from fedpace.errors import require
from fedpace.link import EF21, Averaged, CompressedModel, Difference, EControl, Lazy
from fedpace.pace import Arrivals, Buffered, Immediate, Interrupting, Polled, Rounds
from fedpace.server_opt import AMSGrad, Momentum, Stages
from fedpace.theory.advisor.buffered import buffered
from fedpace.theory.advisor.momentum import server_momentum
from fedpace.theory.advisor.nova import bias, normalised, surrogate
from fedpace.theory.advisor.polled import polled
from fedpace.theory.advisor.two_way import two_way
from fedpace.theory.compression import codec_of, worst_quality
from fedpace.theory.delays import Delays
from fedpace.theory.recommend import Recommended, lossless, recommended
from fedpace.theory.sampling import note
from fedpace.theory.setting import (
    ADVICE,
    EXACT,
    MEASURED,
    ORDER,
    STABILITY,
    UPPER,
    Section,
    Setting,
    StatedQuantity,
)
from fedpace.theory.stability import stability_limit
from fedpace.theory.two_way_bounds import Adaptive, Compression
from fedpace.theory.work import Work

NOTHING = 1e-12  # chi-squared of equal work, up to rounding
NO_THEOREM = "none of the five papers has a theorem about this algorithm; the rates are from stability alone"


@dataclass(frozen=True, eq=False)
class Plan:
    """A planned run: an algorithm, its clients, and the constants of the problem and the delays."""

    algorithm: Algorithm
    setting: Setting
    rounds: int
    delays: Delays
    samples: Callable[[int], float] = lambda client: 1.0
    compression: Compression | None = None  # measured; None: what the codecs claim
    cache_q: float | None = None  # of a quantised cache, E||Q(x) − x||² / ||x||²; None: its worst case

    @property
    def clients(self) -> int:
        return self.setting.clients

    @cached_property
    def expected(self) -> ExpectedWork | None:
        return expected_work(self.algorithm.local, self.algorithm.pace, self.clients, self.samples)

    @cached_property
    def work(self) -> Work | None:
        """Shares and draws of local work; None where the clock decides."""
        local = self.algorithm.local
        sizes = [self.samples(client) for client in range(self.clients)]
        outcomes = [local.outcomes(client, size) for client, size in enumerate(sizes)]
        if None in outcomes:
            return None
        aggregate = self.algorithm.aggregate
        by_samples = isinstance(aggregate, Weighted) or getattr(aggregate, "weighting", "") == "samples"
        plans = [list(plan) for plan in zip(*outcomes, strict=True)]
        return Work.drawn(local, plans, sizes if by_samples else None)

    @property
    def server_lr(self) -> float:
        server = self.algorithm.server_opt
        rule = server.rules[0] if isinstance(server, Stages) else server
        return float(getattr(rule, "lr", 1.0))

    @property
    def arriving_steps(self) -> tuple[float, ...]:
        """The K of updates, over clients and draws."""
        work = self.work
        return (self.setting.steps,) if work is None else tuple(work.k.ravel().tolist())

    @property
    def adaptive(self) -> Adaptive:
        server: Any = self.algorithm.server_opt
        require(isinstance(server, AMSGrad), "server_opt", server, "AMSGrad")
        return Adaptive(server.lr, server.b1, server.b2, server.eps)

    @property
    def link(self) -> Compression:
        """Measured, or what the codecs claim."""
        return self.compression or claimed(self.algorithm, self.setting.size)

    @property
    def worst_cache_q(self) -> float:
        """E||Q(x) − x||² / ||x||² of a quantised cache, measured or at worst d / (4 levels²); 0: whole numbers."""
        bits: int | None = getattr(self.algorithm.aggregate, "bits", None)
        if bits is None or bits == 32:
            return 0.0
        levels = 2 ** (bits - 1) - 1
        return self.setting.size / (4.0 * levels**2) if self.cache_q is None else self.cache_q

    def recommended(self) -> Recommended:
        q = None if self.compression is None else self.compression.q
        return recommended(self.algorithm, self.setting, self.rounds, self.delays, self.expected, q)


def advise(plan: Plan) -> list[Section]:
    """Everything the five papers say about this plan, from delays to recommended rates."""
    pace = plan.algorithm.pace
    modelled = not isinstance(pace, Immediate | Interrupting)
    require(modelled, "algorithm", plan.algorithm.name, "one whose server adds up updates, not models")
    delays = [_staleness(plan)] if plan.delays.largest or plan.delays.measured else []
    own = [*_work(plan), *_theorems(plan)]
    return [*delays, *own, _rates(plan, () if own else (NO_THEOREM,))]


def _staleness(plan: Plan) -> Section:
    d, seen = plan.delays, f"{plan.delays.measured} server steps on the virtual clock"
    quantities = []
    if d.exact_mean is not None:
        quantities.append(
            StatedQuantity("mean staleness, in the long run", d.exact_mean, EXACT, _mean_source(plan))
        )
    if d.measured:
        quantities.append(StatedQuantity("mean staleness, measured", d.mean, MEASURED, seen))
    label, source = (MEASURED, seen) if d.measured else (EXACT, "uniform on the last models")
    quantities.append(StatedQuantity("largest staleness", d.largest, label, source))
    if d.measured:
        quantities += [
            StatedQuantity(
                "participation of the most active client, relative to uniform",
                float(d.shares.max()) * plan.clients,
                MEASURED,
                seen,
            ),
            StatedQuantity(
                "participation of the least active client, relative to uniform",
                float(d.shares.min()) * plan.clients,
                MEASURED,
                seen,
            ),
        ]
    if isinstance(plan.algorithm.aggregate, Cached):
        quantities.append(StatedQuantity("oldest cached update", d.cache_age, MEASURED, seen))
    return Section("staleness", tuple(quantities))


def _mean_source(plan: Plan) -> str:
    pace = plan.algorithm.pace
    if isinstance(pace, Buffered):
        return "Mc/M - 1, any speeds" if pace.dispatch_mode == "batch" else "(Mc - 1)/M, any speeds"
    return "(N - 1)/n, any speeds" if isinstance(pace, Arrivals) else "uniform on the last models"


def _work(plan: Plan) -> list[Section]:
    """FedNova's numbers where it is used; where clients do unequal work or weigh gradients, plain averaging's."""
    work, a = plan.work, plan.algorithm
    if work is None or a.correction is not None or not isinstance(a.pace, Rounds):
        return []
    lr, setting, rounds = a.local.lr, plan.setting, plan.rounds
    if isinstance(a.aggregate, Normalised):
        said = note(a, plan.clients, plan.samples)
        quantities = normalised(work, setting, lr, rounds)
        nova = Section("fednova", quantities, (said,) if said else ())
        return [Section("plain averaging", bias(work, setting)), nova]
    if isinstance(a.server_opt, AMSGrad) or (work.chi2 < NOTHING and _plain_steps(a)):
        return []
    return [Section("plain averaging", (*bias(work, setting), *surrogate(work, setting, lr, rounds)))]


def _plain_steps(algorithm: Algorithm) -> bool:
    return not (algorithm.local.momentum or algorithm.local.prox_mu)


def _theorems(plan: Plan) -> list[Section]:
    a, client_lr, server_lr = plan.algorithm, plan.algorithm.local.lr, plan.server_lr
    delay = plan.delays.largest
    if a.correction is not None or not _plain_steps(a) or isinstance(a.aggregate, Normalised):
        return []
    if isinstance(a.server_opt, AMSGrad) and isinstance(a.pace, Rounds):
        return _adaptive(plan)
    if isinstance(a.pace, Polled | Arrivals):
        iid = isinstance(a.pace, Arrivals)
        return [polled(plan.setting, client_lr, server_lr, delay, plan.rounds, iid=iid)]
    if isinstance(a.pace, Buffered) and isinstance(a.aggregate, Mean | Cached):
        cached = isinstance(a.aggregate, Cached)
        age, shares = plan.delays.cache_age, tuple(plan.delays.shares)
        options: dict[str, Any] = {"cached": cached, "q": plan.worst_cache_q, "shares": shares}
        return [buffered(plan.setting, client_lr, server_lr, delay, age, plan.rounds, **options)]
    return _momentum(plan)


def _adaptive(plan: Plan) -> list[Section]:
    a = plan.algorithm
    link = getattr(a.up, "link", a.up)
    if isinstance(link, EF21 | EControl) or isinstance(a.up, Averaged) or isinstance(a.down, Difference):
        return []  # not the published links
    aa = isinstance(a.up, Lazy) and a.up.rule == "aa"
    return [two_way(plan.setting, plan.adaptive, plan.link, a.local.lr, plan.rounds, aa=aa)]


def _momentum(plan: Plan) -> list[Section]:
    a, server = plan.algorithm, plan.algorithm.server_opt
    stages = Stages(((plan.rounds, server),)) if isinstance(server, Momentum) else server
    if not isinstance(stages, Stages) or not all(isinstance(rule, Momentum) for rule in stages.rules):
        return []
    if not isinstance(a.aggregate, Mean | Weighted | PerStep) or not lossless(a, plan.setting.size):
        return []
    delay = plan.delays.largest if isinstance(a.aggregate, PerStep) else None
    steps, chances = plan.arriving_steps, plan.delays.chances
    quantities = server_momentum(stages, plan.setting, a.local.lr, delay, steps, chances)
    return [Section("server momentum", quantities)]


def claimed(algorithm: Algorithm, size: int) -> Compression:
    """What the links of an algorithm promise: q of the codec, the threshold of the lazy rule (1 for AA)."""
    up, down = algorithm.up, algorithm.down
    lazy = isinstance(up, Lazy) and up.tau > 0
    threshold = (1.0 if up.rule == "aa" else up.tau) if lazy else 0.0
    both = isinstance(down, CompressedModel)
    q = min(worst_quality(codec_of(up), size), 1 - 1e-9)
    return Compression(q, 0.0, 0.0, threshold, both, 0.0, down.tau if both else 0.0)


def _rates(plan: Plan, notes: tuple[str, ...]) -> Section:
    found = plan.recommended()
    server = plan.algorithm.server_opt
    beta, nu = (server.beta, server.nu) if isinstance(server, Momentum) else (0.0, 0.0)
    quantities = []
    if isinstance(server, Momentum) and np.size(plan.delays.chances) > 1:
        mean = stability_limit(beta, nu, plan.delays.chances)
        quantities.append(
            StatedQuantity(
                "server_lr times c, stable below", mean, STABILITY, "spectral radius, these delays"
            )
        )
    few = (
        "mean square: few updates per step are stricter" if len(plan.delays.chances) > 1 else "on a quadratic"
    )
    quantities += [
        StatedQuantity(
            "server_lr times c, mean-square limit", found.limit, EXACT if found.exact else ORDER, few
        ),
        StatedQuantity(
            "c, contraction of local training at curvature L",
            found.step,
            UPPER,
            "1 - (1 - client_lr L)^K, and factors",
        ),
        StatedQuantity(
            "client_lr", found.client_lr, ADVICE, "min(1/2, sqrt(M/(K T))) / L, and FedNova's tau_eff"
        ),
        StatedQuantity("server_lr", found.server_lr, ADVICE, found.because),
    ]
    return Section("recommended learning rates", tuple(quantities), notes)
