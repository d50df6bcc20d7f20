"""The privacy of a run, as the server keeps it: its rules, who has contributed enough, and what was spent."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import asdict, dataclass, replace

from fedpace import logs
from fedpace.algorithm import Algorithm
from fedpace.errors import ConfigError, require
from fedpace.pace import Pace
from fedpace.privacy import Accounting, ClientDP, NoiseSource, Privacy, PrivateSum, accounting_of
from fedpace.privacy.aggregation import PrivateSumState
from fedpace.privacy.pacing import private_pace
from fedpace.server.messages import Step
from fedpace.server.state import ServerState


@dataclass(frozen=True, slots=True)
class PrivateRun:
    """`most`: how many uses the budget allows; None: any number."""

    rule: ClientDP
    accounting: Accounting
    clients: int
    most: int | None
    before: int = 0  # uses by the run that this one continues

    @classmethod
    def of(
        cls, rule: ClientDP, algorithm: Algorithm, clients: int, spent: Privacy | None = None
    ) -> PrivateRun:
        accounting = accounting_of(rule, algorithm.pace, clients)
        if rule.delta >= 1 / clients:
            logs.warn(
                f"delta {rule.delta:g} is not below 1 / {clients} clients: it permits publishing a client's data",
                stacklevel=4,
            )
        most = None if rule.epsilon is None else accounting.most_uses(rule.epsilon, rule.delta)
        if most == 0:
            least = accounting.epsilon(1, rule.delta)
            raise ConfigError(
                f"epsilon must be at least {least:.4g} for one step with noise_multiplier "
                f"{rule.noise_multiplier:g}; got {rule.epsilon:g}"
            )
        if rule.tree:
            steps = clients // (algorithm.pace.per_step or clients)
            allowed = f"at most {steps}: {clients} clients fill so many steps, each at most once"
            require(rule.tree_steps <= steps, "ClientDP.tree_steps", rule.tree_steps, allowed)
        return cls(rule, accounting, clients, most, _continued(spent, accounting, most))

    def rules(self, algorithm: Algorithm, noise: NoiseSource) -> Algorithm:
        """The algorithm as the server follows it."""
        pace, per_step = algorithm.pace, self.accounting.per_step
        total = PrivateSum(
            self.rule,
            algorithm.aggregate,  # type: ignore[arg-type]  # `combinations` refuses all others
            float(pace.per_step or self.clients),
            noise,
            counts=not per_step,
            limit=None if per_step else self._limit,
        )
        return replace(algorithm, pace=private_pace(pace, amplified=per_step), aggregate=total, privacy=None)

    @property
    def _limit(self) -> int | None:
        """Contributions of each client: what the rule says, and no more than the budget allows."""
        known = [each for each in (self.rule.contributions, self.most) if each is not None]
        return None if not known else max(1, min(known) - self.before)

    def excluded(self, state: PrivateSumState) -> Set[int]:
        """Clients that may not contribute now."""
        return state.spent | state.in_tree if state.in_tree else state.spent

    def accounted(self, step: Step, pace: Pace, s: ServerState) -> Step:
        """The step with what was spent; with a new tree all its clients may be chosen again."""
        if self.rule.tree and not s.settled.in_tree:
            for client in set(step.clients) - s.absent:
                pace.joined(client, s.pace)
        return replace(step, epsilon=self.spent(s.settled).epsilon)

    def exhausted(self, state: PrivateSumState) -> str | None:
        """Why no further step may be taken."""
        rule, left = self.rule, self.clients - len(state.spent)
        if self.accounting.per_step:
            over = self.most is not None and state.step + self.before >= self.most
            return f"the budget of epsilon {rule.epsilon:g} allows {self.most} steps" if over else None
        if left < self.accounting.cohort and state.spent:
            return f"{left} of {self.clients} clients have contributions left, of {self._limit} each"
        return None

    def spent(self, state: PrivateSumState) -> Privacy:
        rule, known = self.rule, self.accounting
        uses = self.before + (state.step if known.per_step else state.busiest)
        return Privacy(
            epsilon=known.epsilon(uses, rule.delta),
            delta=rule.delta,
            accountant=known.accountant,
            clip=state.clip,
            mechanism=rule.mechanism,
            uses=uses,
            **asdict(known),
        )


def _continued(spent: Privacy | None, accounting: Accounting, most: int | None) -> int:
    """Uses by the run whose model this one begins with."""
    if spent is None:
        return 0
    require(
        spent.accounting == accounting,
        "privacy of a run that continues a private one",
        accounting,
        f"the same, {spent.accounting}; of different ones fedpace.privacy.composed is the sum",
    )
    require(
        most is None or spent.uses < most, "epsilon", most, f"a budget that {spent.uses} uses left some of"
    )
    return spent.uses


def require_private_task(rule: ClientDP | None, task: object) -> None:
    """Refuse models whose evaluation needs averages of raw data, which no noise covers."""
    if rule is not None and getattr(task, "running_statistics", False):
        raise ConfigError(
            "privacy, and a model with running statistics (BatchNorm), cannot be combined: they are averages of raw "
            "data; use GroupNorm, or BatchNorm(track_running_stats=False)"
        )
