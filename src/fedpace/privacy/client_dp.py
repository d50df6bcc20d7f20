"""The rule: how far one client may move the model, and how much noise hides it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from fedpace.errors import require, require_count, require_number
from fedpace.untrusted import as_number
from fedpace.vector import settle

__all__ = ["AdaptiveClip", "ClientDP"]

MECHANISMS = ("gaussian", "tree")


@dataclass(frozen=True, slots=True)
class AdaptiveClip:
    """The clip follows a quantile of the updates' lengths, found privately.

    Andrew, Thakkar, McMahan & Ramaswamy 2021, arXiv:1905.03871, Algorithm 1:

        b_t     = (sum_i (1[||delta_i|| <= C_t] - 1/2) + N(0, sigma_b^2)) / m + 1/2        noise: sigma_b
        C_{t+1} = C_t exp(-eta_C (b_t - gamma))                                            rate, quantile

    `noise=None` is the paper's m / 20, m being the divisor of the step.
    """

    quantile: float = 0.5
    rate: float = 0.2
    noise: float | None = None

    def __post_init__(self) -> None:
        settle(self)
        require_number(self.quantile, "AdaptiveClip.quantile", low=0, high=1, allowed="in [0, 1]")
        require_number(self.rate, "AdaptiveClip.rate", above=0, below=math.inf, allowed="> 0")
        if self.noise is not None:
            require_number(self.noise, "AdaptiveClip.noise", above=0, below=math.inf, allowed="> 0, or None")

    def count_noise(self, divisor: float) -> float:
        """sigma_b."""
        return divisor / 20 if self.noise is None else self.noise

    def raised(self, noise_multiplier: float, divisor: float) -> float:
        """The update's noise, so that update and count together cost `noise_multiplier`.

        (z^-2 - (2 sigma_b)^-2)^(-1/2): the shifted bits have sensitivity 1/2, so their noise multiplier is 2 sigma_b.
        """
        twice = 2 * self.count_noise(divisor)
        what = "AdaptiveClip.noise (divisor / 20 by default)"
        allowed = (
            f"> noise_multiplier / 2 = {noise_multiplier / 2:g}, or the count alone costs more than the step"
        )
        require(twice > noise_multiplier, what, self.count_noise(divisor), allowed)
        return float((noise_multiplier**-2 - twice**-2) ** -0.5)

    def next_clip(self, clip: float, bits: float, divisor: float) -> float:
        """`bits`: the noisy sum of shifted bits."""
        share = bits / divisor + 0.5
        return clip * math.exp(-self.rate * (share - self.quantile))


@dataclass(frozen=True, slots=True)
class ClientDP:
    """Client-level differential privacy of the released models, by a trusted server.

    Every decoded update is shortened to `clip`, the sum gets Gaussian noise of standard deviation
    `noise_multiplier * clip`, and is divided by a fixed number: the expected cohort, or the buffer. `epsilon` is a
    budget: the run stops before it is exceeded. `contributions`: how often one client may take part, where sampling
    hides nobody (every pacing but rounds). `sample_limit`: sample weights are min(n, limit) / limit.
    `mechanism="tree"`: noise in trees of `tree_steps` steps (DP-FTRL, Kairouz et al. 2021), each client at most once
    per tree.
    """

    clip: float = 1.0
    noise_multiplier: float = 1.0
    delta: float = 1e-5
    epsilon: float | None = None
    adaptive: AdaptiveClip | None = None
    contributions: int | None = None
    mechanism: str = "gaussian"
    sample_limit: float | None = None
    tree_steps: int = 32

    def __post_init__(self) -> None:
        settle(self)
        quantile = as_number(self.adaptive)
        if not math.isnan(quantile):
            object.__setattr__(self, "adaptive", AdaptiveClip(quantile))
        for name in ("clip", "noise_multiplier"):
            require_number(getattr(self, name), f"ClientDP.{name}", above=0, below=math.inf, allowed="> 0")
        require_number(self.delta, "ClientDP.delta", above=0, below=1, allowed="in (0, 1)")
        for name in ("epsilon", "sample_limit"):
            if getattr(self, name) is not None:
                require_number(
                    getattr(self, name), f"ClientDP.{name}", above=0, below=math.inf, allowed="> 0, or None"
                )
        if self.contributions is not None:
            require_count(self.contributions, "ClientDP.contributions")
        kind = "an AdaptiveClip, a quantile, or None"
        require(
            self.adaptive is None or isinstance(self.adaptive, AdaptiveClip),
            "ClientDP.adaptive",
            self.adaptive,
            kind,
        )
        require(self.mechanism in MECHANISMS, "ClientDP.mechanism", self.mechanism, " or ".join(MECHANISMS))
        require_count(self.tree_steps, "ClientDP.tree_steps")
        fixed = "None with mechanism='tree', whose noise is drawn for one clip"
        require(not (self.tree and self.adaptive), "ClientDP.adaptive", self.adaptive, fixed)

    def __repr__(self) -> str:
        own = ("sample_limit", "tree_steps")  # printed only where they differ from the defaults
        said = [f for f in fields(self) if f.name not in own or getattr(self, f.name) != f.default]
        return f"ClientDP({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in said)})"

    @property
    def tree(self) -> bool:
        return self.mechanism == "tree"
