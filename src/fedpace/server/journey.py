"""The journey of an update through the rules: decode, fold in, step. Each rule is called in one place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedpace.aggregate import DynamicMean
from fedpace.aggregate.protocol import Contribution
from fedpace.algorithm import Algorithm
from fedpace.errors import NotFiniteError, TooFewError
from fedpace.link import CONTROL, NonFiniteError
from fedpace.link.protocol import Uplink
from fedpace.random import stream
from fedpace.server.messages import Skipped, Step, Update
from fedpace.server.state import Members, ServerState
from fedpace.vector import Vector, all_finite, freeze, is_finite, norm, shortened


@dataclass(frozen=True, slots=True)
class Decoded:
    """An update as aggregation sees it, and the uplink's memory if it is taken."""

    contribution: Contribution
    memory: Any  # what the uplink remembers then
    clipped: bool


@dataclass(frozen=True, slots=True)
class Journey:
    """The rules of one run, applied to the server's state."""

    algorithm: Algorithm
    up: Uplink
    seed: int

    def delta(self, update: Update, s: ServerState) -> tuple[Vector, Any]:
        """The decoded update, and the uplink's memory once it is taken."""
        memory = s.up.get(update.client)
        if memory is None:
            memory = self.up.init(s.x.size, s.x.dtype)
        delta, memory = self.up.receive(update.frames["update"], memory, s.x.size)
        return delta.astype(s.x.dtype, copy=False), memory  # the wire may be coarser than the model

    def decode(self, update: Update, s: ServerState) -> Decoded:
        """RemoteError for bytes that make no sense, NonFiniteError for a session that failed. Changes nothing."""
        if "update" not in update.frames:
            raise NonFiniteError("the session failed")
        delta, memory = self.delta(update, s)
        short, control, clipped = self._clipped(
            delta, self._control(update, s), s.x if update.version < 0 else None
        )
        client, session, version = int(update.client), int(update.session), int(update.version)
        contribution = Contribution(
            client=client,
            delta=short,
            samples=s.samples.get(client, float(update.samples)),
            steps=int(update.steps),
            a_norm1=float(update.a_norm1),
            staleness=max(0, s.version - version) if version >= 0 else 0,
            session=session,
            version=version,
            round=int(update.round),
            control=control,
            rng=lambda: stream(self.seed, "cache", client, session),
        )
        return Decoded(contribution, memory, clipped or self._will_be_shortened(short, s))

    def _control(self, update: Update, s: ServerState) -> Vector | None:
        if self.algorithm.correction is None:
            return None
        return CONTROL.decode(update.frames.get("control", b""), s.x.size).astype(s.x.dtype, copy=False)

    def _clipped(
        self, delta: Vector, control: Vector | None, x: Vector | None
    ) -> tuple[Vector, Vector | None, bool]:
        """Both vectors within the bound; a whole model, by its distance from the server's `x`."""
        bound = self.algorithm.clip
        if bound is None:
            return delta, control, False
        moved = delta if x is None else delta - x
        short = shortened(moved, bound)
        beside = None if control is None else shortened(control, bound)
        clipped = short is not moved or beside is not control
        return (delta if short is moved else short if x is None else x + short), beside, clipped

    def _will_be_shortened(self, delta: Vector, s: ServerState) -> bool:
        """Whether it is longer than the aggregation rule lets it be."""
        longest = getattr(self.algorithm.aggregate, "longest", None)
        return longest is not None and norm(delta) > longest(s.aggregate)

    def fold(self, contribution: Contribution, s: ServerState) -> Any:
        """The correction's state with this update in it; NonFiniteError if its squares overflow.

        What a client remembers and what is folded in must always agree, so this is settled when the update
        is taken and not when the step is.
        """
        rule, control = self.algorithm.correction, contribution.control
        if rule is None or control is None:
            return s.control
        with np.errstate(all="ignore"):
            folded = rule.fold(contribution, control, s.control)
            if not _squares_are_finite(folded):
                raise NonFiniteError("its control vector is too large")
        return folded

    def take(self, contribution: Contribution, count: int, control: Any, s: ServerState) -> None:
        """Put an update into the step that is being formed; `control` is what `fold` gave."""
        version = contribution.version
        stale = s.version - version if version >= 0 else 0
        start = s.versions[version] if version >= 0 else np.zeros_like(s.x)
        used = contribution
        if (count, stale) != (contribution.count, contribution.staleness):
            used = replace(contribution, count=count, staleness=stale)
        with np.errstate(all="ignore"):  # an overflow is found when the step is checked
            s.aggregate = self.algorithm.aggregate.add(used, start, s.x, s.aggregate)
        s.control = control
        s.members.clients += [used.client] * count
        s.members.sessions += [used.session] * count
        s.members.staleness += [stale] * count
        s.counts.taken += 1

    def begin_anew(self, clients: int, s: ServerState) -> None:
        """What clients remember for corrections, or for FedDyn, is void, and so is its sum."""
        if self.algorithm.correction is not None:
            s.control = self.algorithm.correction.init(s.x, clients)
        if isinstance(rule := self.algorithm.aggregate, DynamicMean):
            s.aggregate, s.settled = rule.begun_anew(s.aggregate), rule.begun_anew(s.settled)
        s.generation += 1

    def step(self, s: ServerState) -> Step | Skipped:
        """Take the step, or leave model, optimizer and aggregate as they were before its members came."""
        m, s.members = s.members, Members()
        try:
            with np.errstate(all="ignore"):
                x, opt, settled = self._next(s)
        except (NotFiniteError, TooFewError):
            s.aggregate = s.settled
            return _skipped(m, s)
        before, s.x = s.x, freeze(x)
        s.opt, s.aggregate, s.settled = opt, settled, settled
        s.version += 1
        if self.algorithm.correction is not None:
            s.control = self.algorithm.correction.stepped(s.control)
        self._remember_norm(before, s)
        return Step(s.version, s.x, tuple(m.clients), tuple(m.sessions), tuple(m.staleness), m.clipped)

    def _next(self, s: ServerState) -> tuple[Vector, Any, Any]:
        """The model and the states after the step; NotFiniteError or TooFewError if there is none."""
        opt_rule = self.algorithm.server_opt
        total, settled = self.algorithm.aggregate.result(s.aggregate)
        if not all_finite(settled):
            raise NotFiniteError("the aggregation rule's state is not finite")
        if not getattr(opt_rule, "checks_itself", False):
            x, opt = opt_rule.apply(s.x, total, s.opt)
            if not (is_finite(x) and all_finite(opt)):
                raise NotFiniteError("the model or a state is not finite")
            return x, opt, settled
        x, opt = getattr(opt_rule, "spend", opt_rule.apply)(s.x, total, s.opt)
        return x, opt, settled

    def _remember_norm(self, before: Vector, s: ServerState) -> None:
        window = getattr(self.up, "window", 0)
        if window:
            moved = s.x - before
            s.step_norms = (float(moved @ moved), *s.step_norms)[:window]


def _squares_are_finite(state: Any) -> bool:
    """Whether sums and means of the vectors in a correction's state are safe from overflow."""
    vectors = (value for value in _fields(state) if isinstance(value, np.ndarray))
    return all(bool(np.isfinite(np.vdot(v, v))) for v in vectors)


def _fields(state: Any) -> tuple[Any, ...]:
    return tuple(getattr(state, name) for name in getattr(state, "__dataclass_fields__", ()))


def _skipped(members: Members, s: ServerState) -> Skipped:
    sessions = list(dict.fromkeys(zip(members.clients, members.sessions, strict=True)))
    s.counts.steps_not_taken += 1
    s.counts.taken -= len(sessions)
    s.counts.refused += len(sessions)
    return Skipped(
        s.version, tuple(client for client, _ in sessions), tuple(number for _, number in sessions)
    )
