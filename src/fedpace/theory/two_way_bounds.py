"""Learning-rate limits and bounds of lazy, accelerated and compressed adaptive methods, one way and both ways.

"Bidirectional communication-efficient non-convex adaptive federated learning", Theorems 4.1 to 4.4 (FedNLAA and
FedAA, full participation and n of m clients), A.1 to A.4 (FedNLACA, FedACA), 4.5, 4.6 and E.1, E.2 (FedBNLACA,
FedBACA).

One formula covers them; `threshold` is C/(α n), our `tau`, and 1 for AA, whose theorems are those of NLA with
C/(α n) = 1 and have no proof of their own. Read as the proofs have it where the statements differ:

- the lazy term is √2 G² c / √ε (printed √2 G C / (α m ε), which has the wrong unit: scale the model by s and the
  loss by u, and a squared gradient must scale by (u/s)²; tests/theory does that to every formula here);
- the drift term is 5 η_l² K L² (σ² + 6Kσ_g²) / √(2ε) (printed with K², or with η² for η_l²);
- conditions keep η_l under the root (printed without, which needs η_l <= 1), (m − n) where sampling is bounded (printed
  n − 1, no condition at all for n = 1), and the 2 of Lemma F.6;
- G² for G³ (A.3, E.1); the terms with H divided by η η_l K like all others (printed undivided), L for L², and ε and √ε
  exchanged where the unit asks for it.

What they do not give: the lazy term and, both ways, the terms with H do not vanish, and the latter *grow* as η_l
falls: the error memory of the downlink is never bounded. "O(1/T)" is 1/√(TKm) with T = Km put in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedpace.errors import require_number
from fedpace.theory.buffered_bounds import largest_rate
from fedpace.theory.setting import Setting


@dataclass(frozen=True, slots=True)
class Adaptive:
    """An AMSGrad server: θ ← θ + η m / √v̂."""

    lr: float  # η
    beta1: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3

    @property
    def momentum(self) -> float:
        """β_1 / (1 − β_1)."""
        return self.beta1 / (1 - self.beta1)

    def weight(self, setting: Setting, factor: float) -> float:
        """factor η L + 2 √(2(1 − β_2)) G, what multiplies the variance of an update."""
        root = 2 * math.sqrt(2 * (1 - self.beta2) * setting.gradient)
        return factor * self.lr * setting.smoothness + root


@dataclass(frozen=True, slots=True)
class Compression:
    """What crosses the link: q of Assumption 3.4, γ and λ of Assumption C.1, and the lazy thresholds."""

    q: float = 0.0  # ||C(x) − x|| <= q ||x||; 0: not compressed
    gamma: float = 0.0  # compress-then-average against average-then-compress
    lam: float = 0.0  # what the lazy clients replace, against the mean update
    threshold: float = 0.0  # c = C/(α n); 1 for AA
    both_ways: bool = False
    down_gamma: float = 0.0  # the same γ for models, which the paper reuses
    down_threshold: float = 0.0

    def __post_init__(self) -> None:
        require_number(self.q, "q", low=0, below=1, allowed="in [0, 1)")

    @property
    def growth(self) -> float:
        """4 (1 + q²)³ / (1 − q²)², how much larger a compressed update with its memory may be squared; 1 without."""
        return 4 * (1 + self.q**2) ** 3 / (1 - self.q**2) ** 2 if self.q else 1.0

    def first(self, server: Adaptive, setting: Setting) -> float:
        """C_1."""
        if not self.q:
            return server.momentum
        q2, share = self.q**2, setting.clients / setting.m
        memory = 12 * q2 / (1 - q2) ** 2 + (1 - q2) ** 2 * self.threshold**2 / q2
        return server.momentum + share * math.sqrt(memory)

    def second(self, server: Adaptive) -> float:
        """C_2; where nothing is compressed C_1² / 2, so that 3 + 2 C_2 is the 3 + C_1² of Theorem 4.1."""
        if not self.q:
            return server.momentum**2 / 2
        owed = self.q + self.gamma + self.lam * self.threshold
        return server.momentum**2 + 4 * owed**2 / (1 - self.q**2) ** 2


@dataclass(frozen=True, slots=True)
class TwoWayTerms:
    """A bound on the smallest squared gradient norm, in terms that are summed."""

    start: float  # falls with the number of rounds
    adaptive: float  # Ξ/T, of the changing step sizes: falls too
    drift: float
    noise: float
    sampling: float
    lazy: float  # stays
    down: float  # stays, and grows as the local rate falls

    @property
    def total(self) -> float:
        parts = (self.start, self.adaptive, self.drift, self.noise, self.sampling, self.lazy, self.down)
        return math.fsum(parts)

    @property
    def stays(self) -> float:
        return self.lazy + self.down


def limit(setting: Setting, server: Adaptive, link: Compression) -> float:
    """η_l up to which the bound holds."""
    s, k, m, n = setting, setting.steps, setting.clients, setting.m
    weight = server.weight(s, 3 + 2 * link.second(server))
    twice = 1 if link.q else 2  # Lemma F.6 against F.7
    together = twice * (m * (n - 1) / (n * (m - 1)) if s.sampled else 1.0)
    apart = 17.625 * (m - n) / (n * (m - 1)) if s.sampled else 0.0

    def holds(client_lr: float) -> bool:
        step = client_lr * k * _root(s, server, link, client_lr) * weight
        return step * max(together, apart) <= server.eps

    return largest_rate(holds, 1 / (8 * k * s.smoothness))


def bound(
    setting: Setting, server: Adaptive, link: Compression, client_lr: float, rounds: int
) -> TwoWayTerms:
    """The theorem that fits: full participation or n of m clients, compressed or not, one way or both."""
    s, k, smooth, eps = setting, setting.steps, setting.smoothness, server.eps
    scale = (8 if s.sampled else 4) * _root(s, server, link, client_lr)
    weight = server.weight(s, 3 + 2 * link.second(server)) / 2
    local = s.noise + 6 * k * s.spread
    forced = 0.0 if link.q else 2 * k * link.threshold**2 * s.gradient
    left_out = s.left_out * (15 * (k * smooth * client_lr) ** 2 * local + 3 * k * s.spread)
    lazy = 0.0 if link.q else math.sqrt(2 / eps) * s.gradient * link.threshold
    return TwoWayTerms(
        scale * s.gap / (server.lr * client_lr * k * rounds),
        scale * _changing(s, server, link, client_lr) / rounds,
        scale * 5 * k * (client_lr * smooth) ** 2 * local / math.sqrt(2 * eps),
        scale * weight * client_lr * (s.noise / s.m + forced) / eps,
        scale * weight * client_lr * left_out / eps,
        scale * lazy,
        scale * _down(s, server, link, client_lr),
    )


def _root(setting: Setting, server: Adaptive, link: Compression, client_lr: float) -> float:
    """√(β_2 growth η_l² K² G² + ε): the largest √v̂."""
    largest = (client_lr * setting.steps) ** 2 * setting.gradient
    return math.sqrt(server.beta2 * link.growth * largest + server.eps)


def _changing(setting: Setting, server: Adaptive, link: Compression, client_lr: float) -> float:
    """Ξ = C_1 G² d / √ε + 2 C_1² η η_l K L G² d / ε."""
    s, first = setting, link.first(server, setting)
    size = s.gradient * s.size
    step = server.lr * client_lr * s.steps * s.smoothness
    return first * size / math.sqrt(server.eps) + 2 * first**2 * step * size / server.eps


def _down(setting: Setting, server: Adaptive, link: Compression, client_lr: float) -> float:
    """What a compressed model costs: the terms with H of Theorems 4.5 and E.1, divided by η η_l K."""
    if not link.both_ways:
        return 0.0
    s, eps, product = setting, server.eps, server.lr * client_lr * setting.steps
    first, g, c = link.first(server, s), math.sqrt(s.gradient), link.down_threshold
    slope = g * (1 + s.smoothness * product / math.sqrt(eps) * (1 + first * s.size))
    off = server.lr * s.radius / ((1 - server.beta1) * math.sqrt(eps))
    square = s.smoothness * (link.down_gamma**2 + c**2) * off**2
    return (slope * (link.down_gamma + c) * off + square * (5 + 2 * (1 + c**2))) / product


# ------------------------------------------------------------------------ orders of magnitude


def preset(setting: Setting, rounds: int) -> tuple[float, float]:
    """(η_l, η) of Corollaries 4.1 to 4.3: 1/(√T K) and √(K n)."""
    return 1 / (math.sqrt(rounds) * setting.steps), math.sqrt(setting.steps * setting.m)


def rate(setting: Setting, rounds: int) -> float:
    """Corollaries 4.1 and 4.3, A.1: 1/√(TKm) for full participation; 4.2 and A.2: √(K/(Tn)) for n of m clients."""
    k = setting.steps
    return math.sqrt(k / (rounds * setting.m)) if setting.sampled else 1 / math.sqrt(rounds * k * setting.m)


def suggested_threshold(clients: int, per_round: int, alpha: float = 1.0) -> float:
    """τ = C/(α n) for the paper's C = √(α ln m)/m: 4.3e-4 for 50 of 100 clients, so small that nothing is skipped."""
    return math.sqrt(alpha * math.log(clients)) / clients / (alpha * per_round)


def memory_bound(q: float, client_lr: float, steps: float, gradient: float) -> float:
    """||e||² <= 4q²/(1 − q²)² η_l² K² G², the error memory of a client that is never lazy (F.6)."""
    return 4 * q**2 / (1 - q**2) ** 2 * (client_lr * steps) ** 2 * gradient
