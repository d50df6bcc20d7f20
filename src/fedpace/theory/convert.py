"""Other momentum methods as general momentum, and back.

Ma & Yarats, arXiv:1810.06801, section 4: each of these makes, from the same gradients, the same models as
`Momentum` with the parameters that `.momentum()` gives (b_0 = 0; all starting at x_0). `.of(momentum)` goes
back and refuses what the method cannot express. g is the gradient at the point the method reports.
Sign: the native forms descend along g; `Momentum` adds displacements, g = −Δ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from fedpace.errors import require, require_number
from fedpace.server_opt import Momentum


@dataclass(frozen=True, slots=True)
class PlainSGD:
    """x⁺ = x − lr g."""

    lr: float

    def momentum(self) -> Momentum:
        return Momentum(self.lr)

    @classmethod
    def of(cls, rule: Momentum) -> Self:
        require(rule.beta * rule.nu == 0, "beta * nu", rule.beta * rule.nu, "0 for plain SGD")
        return cls(rule.lr)


@dataclass(frozen=True, slots=True)
class Undamped:
    """A buffer that takes gradients at full weight, v = b v + g: a rate of 1 / (1 − b) times as much."""

    lr: float
    b: float

    def _damped(self, nu: float) -> Momentum:
        require_number(self.b, f"{type(self).__name__}.b", low=0, below=1, allowed="in [0, 1)")
        return Momentum(self.lr / (1 - self.b), self.b, nu)

    @classmethod
    def _of(cls, rule: Momentum) -> Self:
        return cls(rule.lr * (1 - rule.beta), rule.beta)


class HeavyBall(Undamped):
    """Polyak's momentum, undamped: v = b v + g; x⁺ = x − lr v."""

    def momentum(self) -> Momentum:
        return self._damped(nu=1.0)

    @classmethod
    def of(cls, rule: Momentum) -> Self:
        require(rule.nu == 1, "nu", rule.nu, "1 for heavy ball")
        return cls._of(rule)


class NAG(Undamped):
    """Nesterov's momentum, undamped, as torch has it: v = b v + g; x⁺ = x − lr (g + b v)."""

    def momentum(self) -> Momentum:
        return self._damped(nu=self.b)

    @classmethod
    def of(cls, rule: Momentum) -> Self:
        require(rule.nu == rule.beta, "nu", rule.nu, f"equal to beta, {rule.beta}, for Nesterov's momentum")
        return cls._of(rule)


@dataclass(frozen=True, slots=True)
class SNV:
    """Synthesized Nesterov variants, Lessard, Recht & Packard, arXiv:1408.3595, with ξ_{-1} = ξ_0 = x_0:

    y = ξ + b2 (ξ − ξ_prev), reported;  ξ⁺ = ξ − a g + b1 (ξ − ξ_prev).
    """

    a: float
    b1: float
    b2: float

    def momentum(self) -> Momentum:
        require_number(self.b1, "SNV.b1", above=0, below=1, allowed="in (0, 1)")
        return Momentum(self.a / (1 - self.b1), self.b1, 1 - self.b2 * (1 - self.b1) / self.b1)

    @classmethod
    def of(cls, rule: Momentum) -> Self:
        require(rule.beta > 0, "beta", rule.beta, "> 0 for SNV")
        return cls(rule.lr * (1 - rule.beta), rule.beta, (1 - rule.nu) * rule.beta / (1 - rule.beta))


@dataclass(frozen=True, slots=True)
class PID:
    """A proportional-integral-derivative controller on e = −g, An et al., CVPR 2018:

    w⁺ = w + e; v⁺ = beta v + (1 − beta)(e − e_prev); x⁺ = x_0 + kp e + ki w⁺ + kd v⁺, beta = kd / (kd − kp).
    """

    kp: float
    ki: float
    kd: float

    def momentum(self) -> Momentum:
        gains = (self.kp, self.ki, self.kd)
        require(0 not in gains and self.kd != self.kp, "PID(kp, ki, kd)", gains, "not 0, and kd not kp")
        return Momentum(self.ki, self.kd / (self.kd - self.kp), self.kp**2 / (self.ki * self.kd))

    @classmethod
    def of(cls, rule: Momentum) -> Self:
        require(rule.beta * rule.nu != 0, "beta * nu", rule.beta * rule.nu, "not 0 for PID")
        odds = rule.beta / (1 - rule.beta)
        return cls(-rule.lr * rule.nu * odds, rule.lr, rule.lr * rule.nu * odds**2)


@dataclass(frozen=True, slots=True)
class AccSGD:
    """Accelerated SGD, Kidambi et al., arXiv:1803.05591, with w̄ = w = x_0 and c = 1 − ε² ξ / κ:

    w̄⁺ = c w̄ + (1 − c)(w − (κ δ / ε) g);  w⁺ = (ε (w − δ g) + (1 − c) w̄⁺) / (ε + 1 − c).
    """

    delta: float
    kappa: float
    xi: float
    eps: float = 0.7

    def momentum(self) -> Momentum:
        delta, kappa, xi, eps = self.delta, self.kappa, self.xi, self.eps
        return Momentum(
            delta * eps * (1 + xi) / (1 + eps),
            (kappa - eps**2 * xi) / (kappa + eps * xi),
            (eps * xi - 1) / (eps * (1 + xi)),
        )

    @classmethod
    def of(cls, rule: Momentum, eps: float = 0.7) -> Self:
        require(rule.nu != 1, "nu", rule.nu, "other than 1 for AccSGD")
        xi = (1 + rule.nu * eps) / (eps * (1 - rule.nu))
        return cls(
            rule.lr * (1 + eps) / (eps * (1 + xi)), eps * xi * (rule.beta + eps) / (1 - rule.beta), xi, eps
        )


@dataclass(frozen=True, slots=True)
class RobustMomentum:
    """Cyrus et al., arXiv:1710.04753: the SNV for smoothness, condition number `kappa` and rate `rho`."""

    smoothness: float
    kappa: float
    rho: float

    def snv(self) -> SNV:
        require_number(self.kappa, "kappa", above=1, allowed="> 1")
        kappa, rho = self.kappa, self.rho
        slack = (1 - rho) ** 2 * (1 + rho)
        b1, b2 = kappa * rho**3 / (kappa - 1), rho**3 / ((kappa - 1) * slack)
        return SNV(kappa * slack / self.smoothness, b1, b2)

    def momentum(self) -> Momentum:
        return self.snv().momentum()

    @classmethod
    def of(cls, rule: Momentum) -> Self:
        snv = SNV.of(rule)
        require(snv.b2 > 0, "nu", rule.nu, "< 1 for robust momentum")
        # b1 − ρ³ = b2 (1 − ρ)² (1 + ρ); of its roots, the one in the range the method is made for
        roots = np.roots([1 + snv.b2, -snv.b2, -snv.b2, snv.b2 - snv.b1])
        rates = [float(r.real) for r in roots if abs(r.imag) < 1e-9 and 0 < r.real**3 < snv.b1]
        found = [cls(snv.b1 / snv.b2 / snv.a, snv.b1 / (snv.b1 - rho**3), rho) for rho in rates]
        usable = [method for method in found if method.is_usable()]
        require(len(usable) == 1, "Momentum", rule, "what some robust momentum makes")
        return usable[0]

    def is_usable(self) -> bool:
        """1 − 1/√kappa <= rho <= 1 − 1/kappa, up to rounding."""
        slowest, fastest = 1 - 1 / self.kappa, 1 - 1 / math.sqrt(self.kappa)
        return fastest - 1e-9 <= self.rho <= slowest + 1e-9


@dataclass(frozen=True, slots=True)
class TripleMomentum:
    """Van Scoy, Freeman & Lynch, IEEE L-CSS 2018: robust momentum with rho = 1 − 1/√kappa."""

    smoothness: float
    kappa: float

    def robust(self) -> RobustMomentum:
        require_number(self.kappa, "kappa", above=1, allowed="> 1")
        return RobustMomentum(self.smoothness, self.kappa, 1 - 1 / math.sqrt(self.kappa))

    def momentum(self) -> Momentum:
        return self.robust().momentum()

    @classmethod
    def of(cls, rule: Momentum) -> Self:
        found = RobustMomentum.of(rule)
        fits = math.isclose(found.rho, 1 - 1 / math.sqrt(found.kappa), rel_tol=1e-9)
        require(fits, "rho", found.rho, f"1 - 1/sqrt(kappa) for triple momentum, kappa being {found.kappa}")
        return cls(found.smoothness, found.kappa)


@dataclass(frozen=True, slots=True)
class TwoState:
    """Any linear method with one buffer: a⁺ = aa a + ax x + ag g;  x⁺ = xa a + xx x + xg g."""

    aa: float
    ax: float
    ag: float
    xa: float
    xx: float
    xg: float

    def momentum(self) -> Momentum:
        square = (self.aa - self.xx) ** 2 + 4 * self.ax * self.xa
        psi = self.ax * self.xa - self.aa * self.xx
        require(square > 0 and psi != 0, "TwoState", self, "of two different modes, neither of them 0")
        phi, gain = math.sqrt(square), self.xa * (self.ag * self.xx - self.ax * self.xg)
        total = (self.aa - self.xx - phi) * (self.ag * self.xa - self.aa * self.xg) + 2 * gain
        require(total != 0, "TwoState", self, "a method that moves")
        return Momentum(total / (2 * phi * psi), (self.aa + self.xx - phi) / 2, 2 * gain / total)

    @classmethod
    def of(cls, rule: Momentum) -> Self:
        lr, beta, nu = rule.lr, rule.beta, rule.nu
        return cls(beta, 0.0, 1 - beta, -lr * nu * beta, 1.0, -lr * (1 - nu * beta))
