"""The sans-I/O server: given a message and `now`, it returns what follows. It owns no clock and no socket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from fedpace.aggregate.protocol import Aggregator, Contribution
from fedpace.algorithm import Algorithm
from fedpace.errors import DivergedError, ProtocolError, RemoteError, require, require_count
from fedpace.link import NonFiniteError, ResyncError
from fedpace.link.wire.frame import Kind, expect
from fedpace.pace import ByShare
from fedpace.pace.available import Available
from fedpace.pace.protocol import Decision, Order, WakeAt, awaited
from fedpace.privacy import NoiseSource, Privacy, PrivateSum, SeededNoise
from fedpace.random import stream
from fedpace.server.admission import Admission, is_amount, is_count, shown
from fedpace.server.journey import Journey
from fedpace.server.messages import Answer, Parcel, Receipt, Skipped, Step, Steps, Update
from fedpace.server.models import Models
from fedpace.server.orders import Orders
from fedpace.server.private import PrivateRun
from fedpace.server.state import Failures, ServerState, registered, shares
from fedpace.server.view import ServerView
from fedpace.vector import Vector, freeze


class Server(ServerView):
    """Driven by messages, by the clock, and by nothing else.

    A driver reports what happened (`receive`, `lost`, `left`, `joined`, `woke`) and, before time moves on, asks
    `dispatch` what to send; `wake_at` is when it wants to be woken. `retrieve` makes the frames of a model for the
    client that takes it. Models that some client may still report from are held from `dispatch` on, by the server
    itself. `last` is the version after which no step is taken; `samples` registers n_i of all clients; `present` are
    the clients that are available from the start, all if it is not given. `noise` is
    what a private run draws from; by default the seed's own streams, which are for simulations; `spent` is what a run
    has spent whose model this one begins with.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        x: Vector,
        clients: int,
        *,
        seed: int = 0,
        last: int | None = None,
        samples: Sequence[float] | None = None,
        present: Iterable[int] | None = None,
        noise: NoiseSource | None = None,
        spent: Privacy | None = None,
    ) -> None:
        require_count(clients, "clients")
        self._private = None
        if algorithm.privacy is not None:
            self._private = PrivateRun.of(algorithm.privacy, algorithm, clients, spent)
            algorithm = self._private.rules(algorithm, noise or SeededNoise(seed, self._private.before))
        self.algorithm, self.clients, self.seed, self.last = algorithm, clients, seed, last
        self.up, self.down = algorithm.uplink, algorithm.downlink
        self._journey = Journey(algorithm, self.up, seed)
        self._models = Models(algorithm, self.down, clients, seed)
        self._admission = Admission(algorithm)
        self._orders = Orders.of(algorithm)
        x = freeze(x.copy()) if x.flags.writeable else x
        aggregate = algorithm.aggregate.init(x, clients)
        self.state = ServerState(
            x=x,
            opt=algorithm.server_opt.init(x),
            aggregate=aggregate,
            settled=aggregate,
            pace=algorithm.pace.init(clients),
            down=self.down.init(x, clients),
            control=algorithm.correction.init(x, clients) if algorithm.correction is not None else None,
            samples=registered(samples, clients),
            absent=set() if present is None else set(range(clients)) - set(present),
        )
        self.state.versions.keeps = algorithm.pace.keeps
        self._models.publish(self.state)
        self._parcel: tuple[tuple[int, int, int], Parcel] | None = None  # the last one made
        self._shares: Vector | None = None
        self._dispatching = False

    def settle(self, aggregate: Aggregator) -> None:
        """The aggregation rule with the constants of the clients that joined; its state stays as it is."""
        self.algorithm = replace(self.algorithm, aggregate=aggregate)
        self._journey = replace(self._journey, algorithm=self.algorithm)

    def used(self, update: Update) -> Vector:
        """The vector this update decodes to, before any clipping; changes nothing."""
        return self._journey.delta(update, self.state)[0]

    # ------------------------------------------------------------ what happened

    def receive(self, update: Update, now: float) -> Answer:
        """An update came in: refuse it, or fold it in and perhaps take a step.

        Fields first, then whether it is expected and new, then the bytes.
        """
        s, pace = self.state, self.algorithm.pace
        if not is_count(update.client, self.clients - 1):
            s.counts.malformed += 1
            return Answer(Receipt(False, f"client {shown(update.client)}: there are {self.clients} clients"))
        if wrong := self._admission.objection(update, s):
            return self._refuse_malformed(update, wrong)
        if "resync" in update.frames:
            return self._send_in_full(update)
        if update.session <= self.last_taken(update.client):
            return self._refuse_repeated(update)
        if unexpected := pace.expects(update, s.version, s.pace) or self._orders.late(update, s):
            s.counts.refused += 1
            return self._answer(update, False, unexpected)
        if self.algorithm.paired and update.generation != s.generation:
            s.counts.refused += 1
            gone = self._gone(update.client)
            return self._answer(update, False, "late: corrections began anew", steps=gone)
        if self._private is not None and update.client in self._private.excluded(s.settled):
            return self._refuse_spent(update)
        if not self._orders.has(update, s):
            return self._refuse_malformed(update, f"version {update.version} is not held for it")
        taken = self._take(update)
        if isinstance(taken, Answer):
            return taken
        return self._answer(update, True, taken.reason, steps=self._steps(taken.step))

    def lost(self, client: int, round: int | None = None) -> Steps:
        """The update expected of this client will not arrive.

        `round` is that of the order it came from, where the driver knows: an overtaken one was not waited for.
        """
        s = self.state
        if round is not None and self._orders.overtaken(client, round, s):
            return ()
        self._orders.lost(client, s)
        return self._without(client)

    def left(self, client: int) -> Steps:
        """A client is no longer available. A polled client still has its stored update when it returns."""
        self.state.absent.add(client)
        self._orders.left(client, self.state)
        return self._without(client)

    def joined(self, client: int, samples: float | None = None) -> None:
        """A client is available (again); `samples` registers its n_i, which counts whatever it claims later."""
        require(is_count(client, self.clients - 1), "client", client, f"in 0..{self.clients - 1}")
        if samples is not None:
            maximum = self.algorithm.limits.samples
            require(is_amount(samples, maximum), "samples", samples, f"in 0..{maximum:g}")
            self.state.samples[client], self._shares = float(samples), None
        self.state.absent.discard(client)
        self.algorithm.pace.joined(client, self.state.pace)

    def forget(self, client: int) -> None:
        """This client's memories are not those the server knows of: a lost disk, an old backup on either end.

        Its next messages build on nothing, in both directions. Of corrections, and of FedDyn's linear terms, the server
        knows only the mean over all clients, out of which nobody can take one client's share: they begin anew, for all
        of them.
        """
        s = self.state
        s.counts.resyncs += 1
        s.up.pop(client, None)
        s.down = self.down.forget(client, s.down)
        self._parcel = None
        if self.algorithm.paired:
            self._journey.begin_anew(self.clients, s)

    def woke(self, now: float) -> Steps:
        """The time of `wake_at` has come."""
        self.state.wake_at = None
        return self._steps(self.algorithm.pace.woke(now, self.state.pace))

    # ------------------------------------------------------------ what to do

    def dispatch(self, now: float) -> list[Order]:
        """What to send now: Send, Broadcast, Poll and Interrupt orders. Never to be called from within itself."""
        if self._dispatching:
            raise ProtocolError(
                "dispatch cannot be called from within itself: its orders would be given twice"
            )
        self._dispatching = True
        try:
            s, pace = self.state, self.algorithm.pace
            available = Available(self.clients, self.unavailable, self._known_shares())
            orders = pace.dispatch(s.version, now, available, s.pace, self._draw)
            if orders and awaited(pace, s.pace) > 1:
                s.bad_updates.clear()  # others are waited for now
            filled = [self._orders.filled(order, s) for order in orders]
            return [order for order in filled if not isinstance(order, WakeAt)]
        finally:
            self._dispatching = False

    def retrieve(self, client: int, version: int, round: int) -> Parcel:
        """The frames of a model, made for the client that takes it now, or once for all where they are the same.

        RemoteError if the model is not, or no longer, held for this client.
        """
        self._orders.take(client, version, self.state)
        return self._parcel_for(client, version, round)

    def preview(self, version: int, round: int) -> Parcel:
        """The frames of a broadcast where they are the same for every client; no client takes the model."""
        require(self.down.shared, "preview", self.down, "of a downlink that sends all clients the same")
        return self._parcel_for(0, version, round)

    def keep(self, version: int) -> None:
        """Hold a broadcast for longer than until the next one, because it is still on its way."""
        self.state.holds.keep(version, self.state.versions)

    def release(self, version: int) -> None:
        """The end of `keep`."""
        self.state.holds.release(version, self.state.versions)

    def _parcel_for(self, client: int, version: int, round: int) -> Parcel:
        key = (self.state.version, version, round)
        if not self.down.shared or self._parcel is None or key != self._parcel[0]:
            self._parcel = key, self._models.parcel(client, version, round, self.state)
        return self._parcel[1]

    # ------------------------------------------------------------ taking updates and steps

    def _take(self, update: Update) -> Decision | Answer:
        """Decode an update, ask the pacing rule what to do with it, and do it; an answer if it is refused.

        The step that may be due comes after this: the decoded vector is gone by then.
        """
        s = self.state
        try:
            decoded = self._journey.decode(update, s)
            control = self._journey.fold(decoded.contribution, s)
        except NonFiniteError:
            return self._refuse_not_finite(update)
        except RemoteError as error:
            return self._refuse_bytes(update, error)
        s.bad_updates.clear()
        contribution, client = decoded.contribution, decoded.contribution.client
        if s.kept and sum(kept.client == client for kept in s.kept) >= self.algorithm.limits.waiting:
            s.counts.refused += 1
            return self._answer(update, False, "too many of its updates wait for the next step")
        decision = self.algorithm.pace.arrived(contribution, s.version, s.pace)
        if decision.count == 0:
            s.counts.refused += 1
            s.holds.cancel(client, s.versions)
            return self._answer(update, False, decision.reason)
        s.heard[client] = contribution.session
        if decoded.memory is not None:
            s.up[client] = decoded.memory
        s.members.clipped += decoded.clipped
        s.counts.clipped += decoded.clipped
        if decision.count is None:
            s.versions.hold(contribution.version)
            s.kept.append(contribution)
        else:
            self._journey.take(contribution, decision.count, control, s)
        s.holds.answer(client, contribution.version, s.versions)
        return decision

    def _steps(self, due: bool) -> Steps:
        """The step that is due, and those that follow from updates that waited for it."""
        steps: list[Step | Skipped] = []
        while due and self.state.version != self.last and self.exhausted is None:
            steps, due = [*steps, self._step()], self._offer_kept()
        return tuple(steps)

    def _step(self) -> Step | Skipped:
        s, step = self.state, self._journey.step(self.state)
        if isinstance(step, Step):
            s.bad_steps.clear()
            self._parcel = None  # not one model more than is needed
            step = replace(step, x=self._models.publish(s))
            if self._private is not None:
                step = self._private.accounted(step, self.algorithm.pace, s)
        else:
            s.bad_steps.add(*step.clients)
            self._give_up_if_hopeless(
                s.bad_steps, "steps were not finite and not taken", "the learning rates"
            )
        return step

    def _offer_kept(self) -> bool:
        """Offer the waiting updates to the new step, in order; True if that makes the next one due."""
        s, kept = self.state, self.state.kept
        s.kept = []
        for at, contribution in enumerate(kept):
            decision = self.algorithm.pace.arrived(contribution, s.version, s.pace)
            if decision.count is None:
                s.kept.append(contribution)
                continue
            if decision.count:
                self._take_kept(contribution, decision.count)
            s.versions.release(contribution.version)
            if decision.step:
                s.kept += kept[at + 1 :]
                return True
        return False

    def _take_kept(self, contribution: Contribution, count: int) -> None:
        try:
            control = self._journey.fold(contribution, self.state)
        except NonFiniteError:
            self.state.counts.refused += 1
        else:
            self._journey.take(contribution, count, control, self.state)

    # ------------------------------------------------------------ refusals

    def _answer(
        self, update: Update, accepted: bool, reason: str = "", *, resync: bool = False, steps: Steps = ()
    ) -> Answer:
        why = reason if accepted or not reason else f"client {update.client}: {reason}"
        return Answer(Receipt(accepted, why, resync, self.last_taken(update.client)), steps)

    def _refuse_malformed(self, update: Update, reason: str, resync: bool = False) -> Answer:
        s = self.state
        s.counts.malformed += not resync
        s.counts.resyncs += resync
        if resync:
            s.up.pop(update.client, None)
        return self._answer(update, False, reason, resync=resync, steps=self._gone(update.client))

    def _refuse_bytes(self, update: Update, error: RemoteError) -> Answer:
        """Its fields are right, its bytes make no sense."""
        if isinstance(error, ResyncError):
            return self._refuse_malformed(update, str(error), resync=True)
        self.state.counts.malformed += 1
        return self._answer(update, False, str(error), steps=self._counted_as_zero(update))

    def _refuse_spent(self, update: Update) -> Answer:
        self.state.counts.refused += 1
        return self._answer(update, False, "it may not contribute again", steps=self._gone(update.client))

    def _refuse_not_finite(self, update: Update) -> Answer:
        s = self.state
        s.counts.not_finite += 1
        s.bad_updates.add(update.client)
        self._give_up_if_hopeless(s.bad_updates, "updates were not finite", "the learning rates")
        return self._answer(update, False, "update is not finite", steps=self._counted_as_zero(update))

    def _refuse_repeated(self, update: Update) -> Answer:
        """A session that was taken before: a repeated message, or a client that lost count of its sessions.

        The latter was waited for, and nothing else will come of it: it continues from `taken`.
        """
        s, order = self.state, self.state.holds.orders.get(update.client)
        s.counts.duplicates += 1
        lost_count = order is not None and (order.version, order.round) == (update.version, update.round)
        steps = self._gone(update.client) if lost_count else ()
        return self._answer(update, False, f"session {update.session} came twice", steps=steps)

    def _send_in_full(self, update: Update) -> Answer:
        """A client lost its downlink reference: it may retrieve its model again, in full."""
        s = self.state
        try:
            expect(update.frames["resync"], Kind.RESYNC)
        except RemoteError as error:
            return self._refuse_malformed(update, str(error))
        s.counts.resyncs += 1
        s.down = self.down.forget(update.client, s.down)
        return self._answer(update, False, "resync: retrieve the model again")

    def _counted_as_zero(self, update: Update) -> Steps:
        """An expected update cannot be used. In a private run it takes its place all the same, as zero.

        Otherwise who is in a step, and whether it is taken, would depend on a client's data.
        """
        s, rule = self.state, self.algorithm.aggregate
        if not isinstance(rule, PrivateSum):
            return self._gone(update.client)
        s.holds.cancel(update.client, s.versions)
        decision = self.algorithm.pace.arrived(update, s.version, s.pace)
        if decision.count:
            s.aggregate = rule.missed(update.client, s.aggregate)
        return self._steps(decision.step)

    def _gone(self, client: int) -> Steps:
        """The order for this client came to nothing; it may still report from broadcast models it took."""
        self.state.holds.cancel(client, self.state.versions)
        return self._without(client)

    def _without(self, client: int) -> Steps:
        return self._steps(self.algorithm.pace.lost(client, self.state.pace))

    def _give_up_if_hopeless(self, failures: Failures, what: str, lower: str) -> None:
        """A run has diverged after max(2, cohort) failures in a row; one client among several never ends it."""
        pace, present = self.algorithm.pace, self.present
        cohort = awaited(pace, self.state.pace) or min(pace.per_step or self.clients, self.clients)
        if failures.count >= max(2, cohort) and len(failures.clients) >= min(2, present):
            error = DivergedError(f"the last {failures.count} {what}, after step {self.state.version}")
            error.advice, error.clients = f"lower {lower}", tuple(sorted(failures.clients))
            raise error

    # ------------------------------------------------------------ small questions

    def _known_shares(self) -> Vector | None:
        """p_i of all clients, where they are drawn by them."""
        if not isinstance(getattr(self.algorithm.pace, "select", None), ByShare):
            return None
        if self._shares is None:
            self._shares = shares(self.state.samples, self.clients)
        return self._shares

    def _draw(self) -> np.random.Generator:
        self.state.draws += 1
        return stream(self.seed, "select", self.state.draws)
