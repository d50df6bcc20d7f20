"""The listings of the lazy algorithms, transcribed a second time, line by line, and compared with the library.

"Bidirectional communication-efficient non-convex adaptive federated learning", Algorithms 1 to 3 and Examples 1 to 6.
Nothing of `fedpace.link` is used here: compressors, judgement, memories and the server's step are written out.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import fedpace
from fedpace import algorithms
from fedpace.tasks import quadratics

CLIENTS, SIZE, ROUNDS = 5, 8, 25
_RNG = np.random.default_rng(19)
CENTRES = _RNG.normal(size=(CLIENTS, SIZE)) + 1
CURVATURES = np.array([0.6, 1.0, 1.4, 0.8, 1.2])
START = 0.5
CLIENT_LR, STEPS, SERVER_LR, B1, B2, EPS = 0.05, 2, 0.02, 0.9, 0.99, 1e-3
EVERYBODY = [list(range(CLIENTS))] * ROUNDS
SOME = [sorted(_RNG.choice(CLIENTS, 3, replace=False).tolist()) for _ in range(ROUNDS)]
TASK = quadratics(CENTRES, CURVATURES, initial=START)


def top_k(x):
    """The largest half of the entries, as they are."""
    kept = np.argsort(-np.abs(x), kind="stable")[: SIZE // 2]
    out = np.zeros_like(x)
    out[kept] = x[kept]
    return out


def scaled_sign(x):
    """||x||_1 sign(x) / d."""
    return np.abs(x).sum() / x.size * np.where(x >= 0, 1.0, -1.0)


COMPRESSORS = {"topk:1/2": top_k, "sign": scaled_sign}


@dataclass
class Side:
    """One end's values for one client: e or E, the fresh value of last time, and the one last delivered."""

    error: np.ndarray = field(default_factory=lambda: np.zeros(SIZE))
    raw: np.ndarray | None = None
    held: np.ndarray | None = None


@dataclass
class Listing:
    """What the algorithms are told, and what happened."""

    rule: str  # "nla" or "aa"
    literal: bool
    memory: str = "judged"
    compress: object = staticmethod(lambda x: x)
    fired: int = 0
    phantom: int = 0

    def judged(self, fresh, side, threshold):
        """Examples 1 to 6. To the letter y is the previous fresh value; realisable NLA takes the delivered one."""
        y = side.held if self.rule == "nla" and not self.literal else side.raw
        fires = y is not None and threshold > 0
        fires = fires and np.linalg.norm(fresh - y) <= threshold * np.linalg.norm(y)
        out = fresh
        if fires:
            self.fired += 1
            self.phantom += self.rule == "nla" and y is not side.held
            out = y if self.rule == "nla" else y + fresh
        side.raw = fresh
        if not fires or self.rule == "aa":
            side.held = fresh
        return out

    def sent(self, value, side, threshold, memory):
        """Algorithm 3, lines 11 to 13: compress, judge, and what was not delivered stays."""
        owed = value + side.error
        fresh = self.compress(owed)
        out = self.judged(fresh, side, threshold)
        side.error = owed - (out if memory == "judged" else fresh)
        return out


def local_sgd(start, client):
    x = start
    for _ in range(STEPS):
        x = x - CLIENT_LR * CURVATURES[client] * (x - CENTRES[client])
    return x - start


def amsgrad(theta, moments, update):
    """Algorithm 1, lines 15 and 16, option 1."""
    m, v, v_hat = moments
    m = B1 * m + (1 - B1) * update
    v = B2 * v + (1 - B2) * update**2
    v_hat = np.maximum(np.maximum(v_hat, v), EPS)
    return theta + SERVER_LR * m / np.sqrt(v_hat), (m, v, v_hat)


def algorithm_1(listing, threshold, cohorts):
    """FedNLAA and FedAA."""
    theta, moments = np.full(SIZE, START), (np.zeros(SIZE),) * 3
    sides = [Side() for _ in range(CLIENTS)]
    for cohort in cohorts:
        used = [
            listing.judged(local_sgd(theta, i), sides[i], threshold(listing.rule, len(cohort)))
            for i in cohort
        ]
        theta, moments = amsgrad(theta, moments, sum(used) / len(cohort))
    return theta


def algorithm_3(listing, threshold, cohorts, down=None):
    """FedNLACA and FedACA; with the server's half of Algorithm 2, lines 4 to 12, FedBNLACA and FedBACA."""
    theta, moments = np.full(SIZE, START), (np.zeros(SIZE),) * 3
    sides, servers = [Side() for _ in range(CLIENTS)], [Side() for _ in range(CLIENTS)]
    for cohort in cohorts:
        used = []
        for i in cohort:
            start = theta if down is None else model_sent(down, theta, servers[i], threshold, len(cohort))
            bound = threshold(listing.rule, len(cohort))
            used.append(listing.sent(local_sgd(start, i), sides[i], bound, listing.memory))
        theta, moments = amsgrad(theta, moments, sum(used) / len(cohort))
    return theta


def model_sent(down, theta, server, threshold, n):
    """Realisable: the first model goes out whole. To the letter theta_0 = 0: it is compressed like any other."""
    if server.raw is None and not down.literal:
        server.raw = server.held = theta
        return theta
    return down.sent(theta, server, threshold("down " + down.rule, n), down.memory)


UP = {"nla": 0.9, "aa": 0.6}
CONSTANTS = {"nla": 2.5, "aa": 2.5, "down nla": 3.7, "down aa": 3.7}


def fixed(name, n):
    return UP[name]


def printed(name, n):
    """C / (alpha n), with one C for each rule and direction and alpha = 1/2."""
    return CONSTANTS[name] / (0.5 * n)


def made(name, rule, mode, cohorts, **more):
    """The library's, with rates as above and, unless it is said, no bound on staleness."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        given = dict(
            client_lr=CLIENT_LR,
            steps=STEPS,
            batch_size=None,
            server_lr=SERVER_LR,
            b1=B1,
            b2=B2,
            eps=EPS,
            mode=mode,
            max_staleness=None,
            clients_per_round=len(cohorts[0]),
            select=cohorts,
            tau=UP[rule],
        )
        return getattr(algorithms, name)(**(given | more))


def compare(algorithm, listing, theta, down=None):
    """The models agree to rounding, and the same judgements fired."""
    run = fedpace.simulate(algorithm, TASK, rounds=ROUNDS, evaluate_every=None)
    np.testing.assert_allclose(run.model, theta, rtol=0, atol=1e-13)
    for lane, told in (("up", listing), ("down", down)):
        if told is not None:
            assert (run.traffic[lane]["fired"], run.traffic[lane]["phantom"]) == (told.fired, told.phantom)
            assert told.fired > 0, lane


MODES = ["realisable", "literal"]
COHORTS = pytest.mark.parametrize("cohorts", [EVERYBODY, SOME], ids=["all", "some"])


@COHORTS
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "rule"), [("fednlaa", "nla"), ("fedaa", "aa")])
def test_algorithm_1(name, rule, mode, cohorts):
    listing = Listing(rule, mode == "literal")
    compare(made(name, rule, mode, cohorts), listing, algorithm_1(listing, fixed, cohorts))
    assert (listing.phantom > 0) == (name == "fednlaa" and mode == "literal")


@COHORTS
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("memory", ["judged", "fresh"])
@pytest.mark.parametrize("codec", COMPRESSORS)
@pytest.mark.parametrize(("name", "rule"), [("fednlaca", "nla"), ("fedaca", "aa")])
def test_algorithm_3(name, rule, codec, memory, mode, cohorts):
    tau = 1.2 if codec == "topk:1/2" else 0.9  # consecutive supports of top-k hardly overlap
    listing = Listing(rule, mode == "literal", memory, COMPRESSORS[codec])
    theta = algorithm_3(listing, lambda name, n: tau, cohorts)
    bounded = {} if rule == "aa" or mode == "literal" or tau < 1 else {"max_staleness": 10**6}
    algorithm = {"codec": codec, "memory": memory, "tau": tau} | bounded
    compare(made(name, rule, mode, cohorts, **algorithm), listing, theta)


@COHORTS
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("memory", ["judged", "fresh"])
@pytest.mark.parametrize("codec", COMPRESSORS)
@pytest.mark.parametrize(("name", "rule"), [("fedbnlaca", "nla"), ("fedbaca", "aa")])
def test_algorithm_2(name, rule, codec, memory, mode, cohorts):
    """Line 7 too: the model is judged on its way down (Examples 3 and 6); thresholds as printed, C / (alpha n).

    `memory` is the clients'; the server's is the listing's.
    """
    listing = Listing(rule, mode == "literal", memory, COMPRESSORS[codec])
    down = replace(listing, memory="judged")
    theta = algorithm_3(listing, printed, cohorts, down)
    taus = {"tau": CONSTANTS[rule], "tau_down": CONSTANTS["down " + rule], "over_n": True, "alpha": 0.5}
    algorithm = {"codec": codec, "down_codec": codec, "memory": memory, **taus}
    compare(made(name, rule, mode, cohorts, **algorithm), listing, theta, down)


def test_the_memory_of_the_listing_is_the_default():
    """Algorithm 3, line 13; with the other memory the models are far apart."""
    for name in ("fednlaca", "fedaca", "fedbnlaca", "fedbaca"):
        assert getattr(algorithms, name)() == getattr(algorithms, name)(memory="judged")
        assert getattr(algorithms, name)() == getattr(algorithms, name)(memory=None)  # stored runs may say so
        assert getattr(algorithms, name)() != getattr(algorithms, name)(memory="fresh")


def lag_ps(lipschitz, window, rounds):
    """Equation 2: client i is sent the model, and computes, only when its gradient may have changed enough."""
    theta, steps = np.full(SIZE, START), []
    models, gradients, asked = [None] * CLIENTS, [None] * CLIENTS, 0
    for _ in range(rounds):
        for i in range(CLIENTS):
            limit = sum(steps[-window:]) / window / CLIENT_LR**2  # 1 / (alpha m)^2, xi = 1/R
            quiet = models[i] is not None and lipschitz[i] ** 2 * np.sum((models[i] - theta) ** 2) <= limit
            if not quiet:
                models[i], asked = theta, asked + 1
                gradients[i] = CURVATURES[i] * (theta - CENTRES[i])
        step = -CLIENT_LR / CLIENTS * sum(gradients)
        theta = theta + step
        steps.append(step @ step)
    return theta, asked


@pytest.mark.parametrize("window", [10])
def test_lag_ps_asks_only_clients_whose_gradient_may_have_changed(window):
    """With L_i known exactly; a client that is not asked costs two frames without payload."""
    theta, asked = lag_ps(CURVATURES, window, 60)
    lipschitz = (CLIENT_LR * CURVATURES).tolist()
    algorithm = algorithms.lag(rule="ps", lipschitz=lipschitz, client_lr=CLIENT_LR, max_staleness=None)
    run = fedpace.simulate(algorithm, TASK, rounds=60, evaluate_every=None)
    np.testing.assert_allclose(run.model, theta, rtol=0, atol=1e-13)
    quiet = 60 * CLIENTS - asked
    assert 0 < quiet == run.traffic["down"]["fired"] == run.traffic["up"]["fired"]
    assert run.bytes_up == run.bytes_down == 20 * 60 * CLIENTS + 8 * SIZE * asked
    every = fedpace.simulate(algorithms.fedsgd(client_lr=CLIENT_LR, batch_size=None), TASK, rounds=60)
    away, gone = (np.linalg.norm(model - TASK.optimum) for model in (run.model, every.model))
    assert asked < 0.5 * 60 * CLIENTS and away < 1.2 * gone
