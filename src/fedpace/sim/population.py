"""The devices: how fast they compute and send, when they are available, how often a session is lost."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

from fedpace.errors import require, require_flag, require_number
from fedpace.random import stream
from fedpace.sim.availability import Windows, check_windows
from fedpace.sim.distributions import (
    Between,
    DeviceQuantity,
    Distribution,
    ForModel,
    Inverse,
    Values,
    as_numbers,
    per_client,
    quantity,
)
from fedpace.sim.hostile import Attackers, Hostile
from fedpace.sim.resampled import Resampled

NOISES = ("half_normal", "exponential")
SHORTEST_S = math.ulp(1.0)  # of a session
NO_NOISE = (1.0, 0.0)  # no slower, and no seconds beside
_QUANTITIES = ("solve_s", "step_s", "noise_s", "up_s", "down_s", "up_s_per_byte", "down_s_per_byte")


@dataclass(frozen=True, slots=True, repr=False)
class Population:
    """Seconds of a session = solve_s + steps * step_s + noise; of a transfer = fixed + bytes * per byte.

    Each quantity is a number, one number per client, or a distribution (`Between`, ...) drawn once per client and seed.
    The noise is drawn anew for every session: |N(0, noise_s^2)|, exponential with mean noise_s, or of observed
    sessions (`Resampled`).
    `mode`: "serial" (a session pays for its download, an upload the client starts keeps it from the next session)
    or "overlap" (transfers run in the background; one upload at a time, and one finished update may wait for it).
    `drop` is the probability that a session is lost.
    `windows` says when each client is available: (client, from, to); without windows all clients always are.
    `hostile` says who attacks, and how.
    `delayed_orders`: polls and interruptions take `down_s`, requests for the next model `up_s`, and an interrupted
    client finishes its local step, as in a deployment; by default these take no time.
    Where nothing is said of how long a session takes, it takes one second.

    >>> import fedpace
    >>> task = fedpace.tasks.quadratics([1.0, 2.0, 6.0])
    >>> devices = fedpace.sim.Population(step_s=[0.1, 0.1, 2.0])
    >>> run = fedpace.simulate(fedpace.algorithms.fedavg(steps=5), task, devices, rounds=2)
    >>> run.virtual_seconds
    20.0
    """

    solve_s: DeviceQuantity | None = None  # None: 0, or 1 where step_s and noise_s are 0 too
    step_s: DeviceQuantity = 0.0
    noise_s: DeviceQuantity = 0.0
    up_s: DeviceQuantity = 0.0
    down_s: DeviceQuantity = 0.0
    up_s_per_byte: DeviceQuantity = 0.0
    down_s_per_byte: DeviceQuantity = 0.0
    noise: str | Resampled = "half_normal"
    mode: str = "serial"
    drop: float = 0.0
    windows: Windows | None = None
    hostile: Hostile | None = None
    delayed_orders: bool = False

    def __repr__(self) -> str:
        unsaid = {"hostile": None, "delayed_orders": False}
        said = [
            f.name for f in fields(self) if f.name not in unsaid or getattr(self, f.name) != unsaid[f.name]
        ]
        return f"Population({', '.join(f'{name}={getattr(self, name)!r}' for name in said)})"

    def __post_init__(self) -> None:
        if self.solve_s is None:
            object.__setattr__(self, "solve_s", float(self.step_s == 0 and self.noise_s == 0))
        for name in _QUANTITIES:
            object.__setattr__(self, name, quantity(getattr(self, name), f"Population.{name}"))
        known = isinstance(self.noise, Resampled) or self.noise in NOISES
        require(known, "Population.noise", self.noise, " or ".join(NOISES))
        require(self.mode in ("serial", "overlap"), "Population.mode", self.mode, "serial or overlap")
        require_number(self.drop, "Population.drop", low=0, below=1, allowed="a probability in [0, 1)")
        if self.windows is not None:
            object.__setattr__(self, "windows", check_windows(self.windows))
        require_flag(self.delayed_orders, "Population.delayed_orders")
        attacks = self.hostile is None or isinstance(self.hostile, Hostile)
        require(attacks, "Population.hostile", self.hostile, "a fedpace.sim.Hostile, or None")

    @classmethod
    def from_times(
        cls,
        compute_s: float | Sequence[float],
        up_s: float | Sequence[float] = 0.0,
        down_s: float | Sequence[float] = 0.0,
        **more: Any,
    ) -> Population:
        """Fixed seconds of a session's local training and of each transfer, per client."""
        require(bool((as_numbers(compute_s) > 0).all()), "compute_s", compute_s, "> 0 seconds")
        return cls(solve_s=compute_s, up_s=up_s, down_s=down_s, **more)  # type: ignore[arg-type]

    @classmethod
    def uniform_slowdown(
        cls,
        low: float = 1.0,
        high: float = 5.0,
        flops_per_step: float = 17.0e6,
        flops_per_second: float = 10e9,
        link_bits_per_second: float = 400e6,
        *,
        reading: str = "slowdown",
        **more: Any,
    ) -> Population:
        """The DeFedAvg model: c_i K flops_per_step / flops_per_second, c_i ~ U[low, high]; equal links.

        `reading="speed"` takes U[low, high] as the relative speed instead: c_i = high / u_i.
        """
        given = {"low": low, "flops_per_step": flops_per_step, "flops_per_second": flops_per_second}
        for name, value in (given | {"link_bits_per_second": link_bits_per_second}).items():
            require_number(value, name, above=0, allowed="> 0")
        require(low <= high, "high", high, f">= low ({low:g})")
        require(reading in ("slowdown", "speed"), "reading", reading, "slowdown or speed")
        fastest = flops_per_step / flops_per_second
        slow = Between(low * fastest, high * fastest)
        step: Distribution = slow if reading == "slowdown" else Inverse(high * fastest, low, high)
        per_byte = 8.0 / link_bits_per_second
        return cls(step_s=step, up_s_per_byte=per_byte, down_s_per_byte=per_byte, **more)

    @classmethod
    def half_normal(
        cls, scale: float | Sequence[float] | Distribution = 5.0, base_s: float = 0.0, **more: Any
    ) -> Population:
        """A session takes base + |N(0, s_i^2)| seconds; a number s means s_i ~ U(0, s). CA2FL's: `presets.ca2fl`.

        One value per client, or a distribution, is taken as it is; `Between(5, 5)` is the same scale for all.
        """
        spread = Between(0.0, float(scale)) if isinstance(scale, numbers.Real) else scale
        return cls(solve_s=base_s, noise_s=spread, **more)  # type: ignore[arg-type]

    @classmethod
    def exponential(cls, mean_s: float | Sequence[float] = 1.0, **more: Any) -> Population:
        """A session takes an exponential time."""
        return cls(solve_s=0.0, noise_s=mean_s, noise="exponential", **more)  # type: ignore[arg-type]

    def with_windows(self, windows: Windows) -> Population:
        """The same devices, available only in these (client, from, to)."""
        return replace(self, windows=windows)

    def for_model(self, multiply_accumulates: Callable[[], int | None]) -> Population:
        """With the seconds per local step of a model that costs so much, where they depend on it."""
        if not isinstance(self.step_s, ForModel):
            return self
        return replace(self, step_s=replace(self.step_s, used=multiply_accumulates()))

    def bind(self, clients: int, seed: int) -> Devices:
        """The devices of one run."""
        drawn = {
            name: per_client(
                getattr(self, name), clients, stream(seed, "population", k), f"Population.{name}"
            )
            for k, name in enumerate(_QUANTITIES)
        }
        shortest = float(np.min(drawn["solve_s"] + drawn["step_s"] + drawn["noise_s"]))
        require(shortest > 0, "Population: the seconds of a session", shortest, "> 0 for every client")
        if self.windows is not None:
            check_windows(self.windows, clients)
        if isinstance(self.noise, Resampled):
            require(self.noise.clients == clients, "clients of Resampled", self.noise.clients, f"{clients}")
        attackers = None if self.hostile is None else self.hostile.bind(clients, seed)
        return Devices(population=self, clients=clients, seed=seed, attackers=attackers, **drawn)


class _Views(NamedTuple):
    """The quantities of `Devices` once more: one number is read in a third of the time that an array takes."""

    solve_s: memoryview
    step_s: memoryview
    noise_s: memoryview
    up_s: memoryview
    down_s: memoryview
    up_s_per_byte: memoryview
    down_s_per_byte: memoryview


@dataclass(frozen=True, slots=True)
class Devices:
    """A population with every draw made that is made once per run."""

    population: Population
    clients: int
    seed: int
    solve_s: Values
    step_s: Values
    noise_s: Values
    up_s: Values
    down_s: Values
    up_s_per_byte: Values
    down_s_per_byte: Values
    attackers: Attackers | None = None
    _of: _Views = field(init=False, repr=False, compare=False)
    _resampled: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        views = _Views(*(memoryview(getattr(self, name)) for name in _QUANTITIES))
        object.__setattr__(self, "_of", views)
        object.__setattr__(self, "_resampled", isinstance(self.population.noise, Resampled))

    @property
    def serial(self) -> bool:
        return self.population.mode == "serial"

    def compute_s(self, client: int, session: int, steps: int) -> float:
        """Seconds of one session's local work; always > 0."""
        of, noisy = self._of, self._of.noise_s[client] or self._resampled
        slowdown, extra_s = self._drawn_noise(client, session) if noisy else NO_NOISE
        seconds = of.solve_s[client] + steps * of.step_s[client] * slowdown + extra_s
        return seconds if seconds > SHORTEST_S else SHORTEST_S

    def _drawn_noise(self, client: int, session: int) -> tuple[float, float]:
        """By what its steps are slower, and the seconds beside them."""
        noise, scale = self.population.noise, self._of.noise_s[client]
        if isinstance(noise, Resampled):
            return noise.drawn(self.seed, client, session)
        rng = stream(self.seed, "delay", client, session)
        return 1.0, scale * (
            abs(rng.standard_normal()) if noise == "half_normal" else rng.standard_exponential()
        )

    def expected_step_s(self, client: int, steps: int = 1) -> float:
        """The mean seconds of one local step, for rules with a time budget."""
        slowdown, extra_s = self._mean_noise(client)
        return self._of.step_s[client] * slowdown + (self._of.solve_s[client] + extra_s) / steps

    def _mean_noise(self, client: int) -> tuple[float, float]:
        noise = self.population.noise
        if isinstance(noise, Resampled):
            return noise.mean(client)
        return 1.0, self._of.noise_s[client] * (math.sqrt(2 / math.pi) if noise == "half_normal" else 1.0)

    def upload_s(self, client: int, size_bytes: int) -> float:
        return self._of.up_s[client] + size_bytes * self._of.up_s_per_byte[client]

    def uploads_at_once(self, client: int) -> bool:
        """Whether transfers take no time, however long they are."""
        return not (self._of.up_s[client] or self._of.up_s_per_byte[client])

    def download_s(self, client: int, size_bytes: int) -> float:
        return self._of.down_s[client] + size_bytes * self._of.down_s_per_byte[client]

    def slowest_download_s(self, size_bytes: int) -> float:
        return float(np.max(self.down_s + size_bytes * self.down_s_per_byte))

    def fastest_cycle_s(self, size_bytes: int, steps: int) -> float:
        """Download, local training and upload of the fastest client."""
        transfer = self.up_s + self.down_s + size_bytes * (self.up_s_per_byte + self.down_s_per_byte)
        return float(np.min(transfer + self.solve_s + self.noise_s + steps * self.step_s))

    def drops(self, client: int, session: int) -> bool:
        """Whether this session is lost."""
        drop = self.population.drop
        return drop > 0 and bool(stream(self.seed, "drop", client, session).random() < drop)
