"""FedNova, Figure 4: what FedProx's α = η μ does to weight bias, slowdown and variance. Theory, without runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedpace.local import SGD
from fedpace.random import stream
from fedpace.reproduce import pictures as draw
from fedpace.reproduce.experiment import Finding, judged, none_run
from fedpace.reproduce.results import Results
from fedpace.theory import Work

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLIENTS, MEAN, VARIANCE = 30, 20, 20  # m = 30, p_i = 1/m, τ_i ~ N(20, 20)
ALPHAS = (0.0, *np.geomspace(0.001, 0.999, 40).tolist())


class Effect(NamedTuple):
    """Of one α."""

    bias: float  # χ²(p, w)
    slowdown: float  # mean steps / τ_eff
    variance: float  # A of (9), over that of α = 0


def steps() -> tuple[int, ...]:
    """The printed distribution; the paper's draw is not printed."""
    drawn = np.rint(stream(0, "work").normal(MEAN, np.sqrt(VARIANCE), CLIENTS))
    return tuple(int(k) for k in np.maximum(1, drawn))


def effects() -> list[Effect]:
    """By α."""
    works = [Work.of(SGD(1.0, steps=1, prox_mu=alpha), steps()) for alpha in ALPHAS]
    plain = works[0].a(works[0].w)
    return [Effect(work.chi2, work.mean_steps / work.tau_eff, work.a(work.w) / plain) for work in works]


def findings(results: Results) -> list[Finding]:
    """With the others of its page: a page without runs has no verdict."""
    found = [_finding(effects())]
    return found if results.outcomes else none_run(found)


def _finding(found: list[Effect]) -> Finding:
    bias, slowdown, _ = zip(*found, strict=True)
    falls = all(b < a for a, b in zip(bias, bias[1:], strict=False) if a > 1e-12)  # below is rounding
    rises = all(b > a for a, b in zip(slowdown, slowdown[1:], strict=False))
    ends = bias[-1] < 1e-12 and abs(slowdown[-1] * ALPHAS[-1] ** -1 - np.mean(steps())) < 1e-9
    return Finding(
        "Figure 4: with α = ημ FedProx's weight bias χ² falls to 0 and its slowdown rises to the mean steps",
        "χ² decreases, slowdown worsens; α = 1: consistent, τ_eff = 1",
        f"χ² {bias[0]:.3f} → {bias[-1]:.0e}, slowdown {slowdown[0]:.1f} → {slowdown[-1]:.1f}",
        judged(falls and rises and ends),
        f"at 41 α from 0 to {ALPHAS[-1]:g}, from the vectors a_i; steps drawn from N(20, 20).",
    )


def pictures() -> Mapping[str, Figure]:
    found = effects()
    with draw.style():
        figure, ((axes,),) = draw.sheet(1, width=5.2)
        scaled = {
            "weight bias χ²(p, w), over FedAvg's": [each.bias / found[0].bias for each in found],
            "slowdown (mean steps / τ_eff), over 20": [each.slowdown / MEAN for each in found],
            "variance A of (9), over FedAvg's": [each.variance for each in found],
        }
        for at, (label, values) in enumerate(scaled.items()):
            axes.plot(ALPHAS[1:], values[1:], color=draw.colour(at), label=label)
        axes.set_xscale("log")
        draw.titled(axes, "FedProx against α = ημ", "α")
        draw.legend_below(figure, [axes], 1)
    return {"figure4": figure}
