"""No advice that a run contradicts: random settings, run at the recommended rates, do not diverge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedpace
from fedpace import algorithms, tasks
from fedpace.aggregate.expected import expected_work
from fedpace.algorithm import Algorithm
from fedpace.sim import Population
from fedpace.theory import Setting, recommended
from fedpace.theory.delays import Delays, exact_delays, seen_in
from fedpace.theory.estimate import estimate
from fedpace.theory.recommend import Recommended

KINDS = (
    "fedavg", "fedavgm", "fedgm", "fednag", "multistage_fedgm", "fedprox", "fednova", "fednova by share",
    "fednova_vr", "replayed", "autonomous_fedgm", "fedbuff", "fedbuff with momentum", "ca2fl", "mf_ca2fl",
    "defedavg_niid", "defedavg_iid", "fedcams", "fednlaca", "fedbnlaca", "fedaa", "fedbaca",
)  # fmt: skip
TWENTY = tuple(range(20))
ROUNDS, CLOCK = 120, 60


class Case:
    """A random problem and a random configuration of one kind of algorithm."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(4, 12)), int(rng.integers(1, 9))
        curvatures = rng.uniform(0.05, 1, n) * rng.uniform(0.2, 30)
        self.task = tasks.quadratics(
            rng.normal(size=(n, d)) * 3,
            curvatures,
            weights=rng.uniform(0.1, 4, n),
            initial=rng.normal(size=d) * 30,
        )
        self.smoothness, self.kind = float(curvatures.max()), KINDS[seed % len(KINDS)]
        self.members, self.active = (int(rng.integers(1, n + 1)) for _ in range(2))
        self.steps, self.unequal = int(rng.integers(1, 12)), rng.integers(1, 20, n).tolist()
        self.momentum = {"beta": float(rng.choice([0.5, 0.9, 0.95])), "nu": float(rng.choice([0, 0.7, 1.0]))}
        self.history, self.k_ref = int(rng.integers(2, 9)), (1.0, "mean")[int(rng.integers(2))]
        self.codec = str(rng.choice(["topk:1/2", "topk:1/4", "sign"]))
        times = Population.from_times(rng.uniform(1, 9, n).tolist())
        self.population = (None, Population.exponential(1.0), times)[int(rng.integers(3))]

    def algorithm(self, client_lr: float = 0.01, server_lr: float = 1.0) -> Algorithm:
        q, kind = self.members, self.kind
        rates: dict[str, Any] = {"client_lr": client_lr, "server_lr": server_lr, "batch_size": None}
        equal, unequal = {**rates, "steps": self.steps}, {**rates, "steps": self.unequal}
        rounds, buffered = (
            {"clients_per_round": q},
            {"buffer": min(q, self.active), "concurrency": self.active},
        )
        match kind:
            case "fedavg" | "fedprox":
                return getattr(algorithms, kind)(**equal, **rounds)
            case "fedavgm" | "fednag":
                return getattr(algorithms, kind)(**equal, **rounds, beta=self.momentum["beta"])
            case "fedgm":
                return algorithms.fedgm(**equal, **rounds, **self.momentum)
            case "multistage_fedgm":
                staged = {**equal, "server_lr": [server_lr, server_lr / 2]}
                return algorithms.multistage_fedgm(**staged, **rounds, rounds=ROUNDS, **self.momentum)
            case "fednova":
                return algorithms.fednova(**unequal, **rounds)
            case "fednova by share":
                return algorithms.fednova(
                    **unequal, **rounds, select="share", weighting="uniform", momentum=0.5
                )
            case "fednova_vr":
                return algorithms.fednova_vr(**unequal)
            case "replayed":
                late = {"history": self.history, "k_ref": self.k_ref, **self.momentum}
                return algorithms.autonomous_fedgm(**unequal, **rounds, **late)
            case "autonomous_fedgm":
                return algorithms.autonomous_fedgm(**unequal, **buffered, k_ref=self.k_ref, **self.momentum)
            case "fedbuff with momentum":
                return algorithms.fedbuff(**equal, **buffered, **self.momentum, dispatch="immediate")
            case "fedbuff" | "ca2fl" | "mf_ca2fl":
                return getattr(algorithms, kind)(**equal, **buffered)
            case "defedavg_niid":
                return algorithms.defedavg_niid(**equal, draws=q)
            case "defedavg_iid":
                return algorithms.defedavg_iid(**equal, buffer=q)
        codecs = {} if kind == "fedaa" else {"codec": self.codec}
        down = {"down_codec": self.codec} if kind.startswith("fedb") else {}
        return getattr(algorithms, kind)(**equal, **rounds, **codecs, **down)

    def delays(self, algorithm: Algorithm) -> Delays:
        known = exact_delays(algorithm.pace, self.task.clients)
        if known is not None:
            return known
        run = fedpace.simulate(
            algorithm, self.task, self.population, rounds=CLOCK, evaluate_every=None, traces=False
        )
        return seen_in(run.history, algorithm.pace, self.task.clients)

    def recommended(self) -> Recommended:
        algorithm, n = self.algorithm(), self.task.clients
        work = expected_work(algorithm.local, algorithm.pace, n, self.task.samples)
        most = max(max(algorithm.local.outcomes(client, 1.0) or ()) for client in range(n))
        members = min(algorithm.pace.per_step or n, n)
        setting = Setting(self.smoothness, n, most, members, size=self.task.layout.size)
        return recommended(algorithm, setting, ROUNDS, self.delays(algorithm), work)

    def losses(self, client_lr: float, server_lr: float) -> np.ndarray[Any, Any]:
        run = fedpace.simulate(
            self.algorithm(client_lr, server_lr),
            self.task,
            self.population,
            rounds=ROUNDS,
            seed=1,
            evaluate_every=10,
            traces=False,
        )
        return np.array([record.metrics["loss"] for record in run.history if record.metrics])


def ends_well(case: Case) -> None:
    found = case.recommended()
    losses = case.losses(found.client_lr, found.server_lr)
    start = case.task.training_loss(case.task.initial(0))
    assert np.isfinite(losses).all()
    assert losses.max() < 4 * start
    assert losses[-3:].mean() < start


@pytest.mark.parametrize("seed", TWENTY, ids=lambda seed: KINDS[seed])
def test_recommended_rates_do_not_diverge(seed: int) -> None:
    ends_well(Case(seed))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20, 242))
def test_two_hundred_more(seed: int) -> None:
    ends_well(Case(seed))


@pytest.mark.parametrize("kind", ["fedavg", "replayed", "defedavg_niid"])
def test_the_advice_is_not_timid(kind: str) -> None:
    """Six times the recommended server rate does diverge, in the hardest of some cases, where η c = half the limit."""
    worst = 0.0
    for seed in range(KINDS.index(kind), KINDS.index(kind) + 4 * len(KINDS), len(KINDS)):
        case = Case(seed)
        found = case.recommended()
        with np.errstate(all="ignore"):
            losses = _far(case, found)
        worst = max(worst, losses)
    assert worst > 10


def _far(case: Case, found: Recommended) -> float:
    from fedpace.errors import DivergedError

    start = case.task.training_loss(case.task.initial(0))
    try:
        return float(case.losses(found.client_lr, 6 * found.server_lr)[-1] / start)
    except DivergedError:
        return np.inf


def test_the_rates_by_hand() -> None:
    """FedAvg, all clients, K = 1, L = 4, T = 16 of 4 clients: client_lr = min(1/2, √(4/16))/4, c = 1/2, server_lr 2."""
    algorithm = algorithms.fedavg(client_lr=9.0, steps=1, batch_size=None)
    none = exact_delays(algorithm.pace, 4)
    assert none is not None
    found = recommended(algorithm, Setting(4.0, 4, 1), 16, none)
    assert (found.client_lr, found.step, found.limit, found.server_lr) == pytest.approx(
        (1 / 8, 0.5, 2.0, 2.0)
    )


def test_delay_lowers_the_server_rate() -> None:
    """R = 10 and FedAvg: half of a limit below .489, instead of 1."""
    late = algorithms.autonomous_fedgm(steps=1, history=10, beta=0.0, nu=0.0, k_ref=1)
    delays = exact_delays(late.pace, 4)
    assert delays is not None and delays.largest == 9
    found = recommended(late, Setting(4.0, 4, 1), 16, delays)
    assert found.server_lr * found.step == pytest.approx(found.limit / 2)
    assert 0.4 < found.limit < 0.489


@pytest.mark.parametrize("name", ["fedgm", "fednova", "ca2fl"])
def test_recommended_rates_learn_digits(name: str) -> None:
    """The demo's data, constants measured on it: the loss falls."""
    task = tasks.load("digits", 20, "dirichlet:0.5")
    more: dict[str, Any] = {"buffer": 5, "concurrency": 10} if name == "ca2fl" else {"clients_per_round": 5}
    make = getattr(algorithms, name)
    algorithm = make(epochs=1, **more)
    delays = exact_delays(algorithm.pace, 20)
    if delays is None:
        run = fedpace.simulate(algorithm, task, rounds=30, evaluate_every=None, traces=False)
        delays = seen_in(run.history, algorithm.pace, 20)
    work = expected_work(algorithm.local, algorithm.pace, 20, task.samples)
    assert work is not None
    setting = estimate(task, 10, models=2).setting(20, float(work.steps.max()), 5)
    found = recommended(algorithm, setting, 40, delays, work)
    again = make(epochs=1, client_lr=found.client_lr, server_lr=found.server_lr, **more)
    run = fedpace.simulate(again, task, rounds=40, evaluate_every=20, traces=False)
    assert run.metrics["loss"] < 0.95 * task.evaluate(task.initial(0))["loss"]
