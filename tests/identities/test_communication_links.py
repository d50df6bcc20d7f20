"""Two-way compressed, lazy and accelerated communication at the level of links.

"Bidirectional communication-efficient non-convex adaptive federated learning": golden runs, closed forms on a
scalar quadratic, and the invariants no run may break. The server's optimizer is written out here, so that
only the links are under test.
"""

from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
import pytest

from fedpace.link import (
    EF21,
    CompressedModel,
    Context,
    Dense,
    Difference,
    ErrorFeedback,
    Full,
    Lazy,
    Phantom,
    Plain,
    Quantize,
    ResyncError,
    ScaledSign,
    TopK,
    describe,
)
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind

FLOAT64 = np.dtype(np.float64)
RNG = np.random.default_rng(0)


@dataclass
class AMSGrad:
    """m <- b1 m + (1-b1) A; v <- b2 v + (1-b2) A^2; v_hat <- max; theta + eta m / root."""

    option: int = 1
    m: np.ndarray | float = 0.0
    v: np.ndarray | float = 0.0
    v_hat: np.ndarray | float = 0.0

    def step(self, theta, a):
        self.m = 0.9 * self.m + 0.1 * a
        self.v = 0.99 * self.v + 0.01 * a * a
        self.v_hat = np.maximum(self.v_hat, self.v)
        if self.option == 1:
            self.v_hat = np.maximum(self.v_hat, 1e-3)
            return theta + 0.1 * self.m / np.sqrt(self.v_hat)
        return theta + 0.1 * self.m / np.sqrt(self.v_hat + 1e-3)


@dataclass
class Adam(AMSGrad):
    def step(self, theta, a):
        super().step(theta, a)
        return theta + 0.1 * self.m / (np.sqrt(self.v) + 1e-3)


class Average:
    def step(self, theta, a):
        return theta + a


@dataclass
class Federation:
    """Quadratic clients F_i = ||theta - c_i||^2 / 2 with one local step of .5, over real frames."""

    up: object
    down: object = field(default_factory=Full)
    server: object = field(default_factory=AMSGrad)
    centers: tuple = ((1, 2, -1), (3, 0, 1))
    lr: float = 0.5

    def __post_init__(self):
        self.centers = np.array(self.centers, float)
        size = self.centers.shape[1]
        self.theta, self.t = np.zeros(size), 0
        self.sender = {i: self.up.init(size, FLOAT64) for i in range(len(self.centers))}
        self.receiver = {i: self.up.init(size, FLOAT64) for i in range(len(self.centers))}
        self.held, self.log, self.starts, self.given, self.used = {}, [], [], {}, {}
        self.state = self.down.init(self.theta, len(self.centers))

    def round(self, members=None):
        members = range(len(self.centers)) if members is None else members
        self.state = self.down.publish(self.theta, self.t, self.state, RNG)
        total = 0.0
        for i in members:
            total = total + self.visit(i, len(members))
        self.theta = self.server.step(self.theta, total / len(members))
        self.t += 1

    def visit(self, i, n):
        down, self.state = self.down.send(i, self.theta, self.t, self.state, RNG)
        start, self.held[i] = self.down.receive(down, self.held.get(i), self.theta.size)
        delta = self.lr * (self.centers[i] - start)
        up, self.sender[i] = self.up.send(delta, self.sender[i], Context(self.t, n), RNG)
        used, self.receiver[i] = self.up.receive(up, self.receiver[i], self.theta.size)
        self.log.append((self.t, i, down, up))
        self.starts.append(start)
        self.given[i] = self.given.get(i, 0) + delta
        self.used[i] = self.used.get(i, 0) + used
        return used

    def run(self, rounds):
        for _ in range(rounds):
            self.round()
        return self

    def fired(self):
        """(round, client), counted from 1, of every judgement that fired."""
        frames = ((t + 1, i + 1, wire.parse(up)) for t, i, _, up in self.log)
        return {(t, i) for t, i, h in frames if h.kind is Kind.SKIP or h.flags & wire.ADD_PREV}


def nla(tau, codec=None, memory="judged"):
    return Lazy("nla", tau, None, Plain() if codec is None else ErrorFeedback(codec, memory))


def aa(tau, codec=None, memory="judged"):
    return Lazy("aa", tau, None, Plain() if codec is None else ErrorFeedback(codec, memory))


# ---------------------------------------------------------------- golden runs

TOP1 = TopK(1 / 3)
GOLDEN = {
    "FedAvg": ((Plain(), Full(), Average), (1.875, 0.9375, 0), set()),
    "FedAdam": ((Plain(), Full(), Adam), (0.55827991, 0.54879661, 0), set()),
    "FedAMS 1": ((Plain(), Full(), AMSGrad), (0.56210211, 0.55648612, 0), set()),
    "FedAMS 2": ((Plain(), Full(), lambda: AMSGrad(2)), (0.54876622, 0.50774399, 0), set()),
    "FedNLAA": ((nla(0.06), Full(), AMSGrad), (0.5620128, 0.55610567, 0), {(2, 1), (2, 2)}),
    "FedAA": ((aa(0.06), Full(), AMSGrad), (0.53509402, 0.52863496, 0), {(2, 1), (2, 2)}),
    "FedCAMS top-1": ((ErrorFeedback(TOP1), Full(), AMSGrad), (0.49311217, 0.43081549, -0.03294873), set()),
    "FedCAMS sign": (
        (ErrorFeedback(ScaledSign()), Full(), AMSGrad),
        (0.55793789, 0.30872213, -0.00777363),
        set(),
    ),
    "FedNLACA judged": (
        (nla(0.5, ScaledSign()), Full(), AMSGrad),
        (0.53266752, 0.32371736, -0.02578859),
        {(2, 1)},
    ),
    "FedNLACA fresh": (
        (nla(0.5, ScaledSign(), "fresh"), Full(), AMSGrad),
        (0.55757702, 0.31567917, -0.01903761),
        {(2, 1), (3, 1)},
    ),
    "FedACA judged": (
        (aa(0.5, ScaledSign()), Full(), AMSGrad),
        (0.51739502, 0.4089116, -0.06726254),
        {(2, 1)},
    ),
    "FedACA fresh": (
        (aa(0.5, ScaledSign(), "fresh"), Full(), AMSGrad),
        (0.54880562, 0.41437775, -0.18483814),
        {(2, 1), (3, 1)},
    ),
    "two-way": ((ErrorFeedback(TOP1), Difference(TOP1), AMSGrad), (0.50159389, 0.50270317, 0), set()),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_run(name):
    """O24: theta after four rounds, and who fired when."""
    (up, down, server), theta, fired = GOLDEN[name]
    run = Federation(up, down, server()).run(4)
    np.testing.assert_allclose(run.theta, theta, atol=1e-8)
    assert run.fired() == fired


def test_golden_run_round_by_round():
    """O24: FedAMS after rounds 1-3, FedAdam after round 1, what FedCAMS sends, and what client 1 holds."""
    run = Federation(Plain())
    for theta in ((0.1, 0.1, 0), (0.23447879, 0.23416408, 0), (0.39090264, 0.38918969, 0)):
        np.testing.assert_allclose(run.run(1).theta, theta, atol=1e-8)
    np.testing.assert_allclose(
        Federation(Plain(), server=Adam()).run(1).theta, (0.0990099, 0.09803922, 0), atol=1e-8
    )
    cams = Federation(ErrorFeedback(TOP1)).run(3)
    sent = [TOP1.decode(up, 3) for *_, up in cams.log]
    expected = [(0, 1, 0), (1.5, 0, 0), (0, 0, -1), (1.45, 0, 0), (0, 1.855, 0), (0, 0, 1.55)]
    np.testing.assert_allclose(sent, expected, atol=1e-3)
    both = Federation(ErrorFeedback(TOP1), Difference(TOP1)).run(4)
    np.testing.assert_allclose(both.held[0].model, (0.35566288, 0.23468743, 0), atol=1e-8)


def test_fednlaa_saves_two_of_eight_uploads():
    """O24: 6 DENSE + 2 SKIP, with tau = C / (alpha n), C = .12."""
    run = Federation(Lazy("nla", 0.12, None, over_n=True)).run(4)
    np.testing.assert_allclose(run.theta, (0.5620128, 0.55610567, 0), atol=1e-8)
    assert sorted(len(up) for *_, up in run.log) == [20] * 2 + [20 + 24] * 6


# ---------------------------------------------------------------- equivalences


@pytest.mark.parametrize(
    "left, right",
    [
        ((nla(0.0), Full()), (Plain(), Full())),
        ((aa(0.0), Full()), (Plain(), Full())),
        ((nla(0.0, ScaledSign()), Full()), (ErrorFeedback(ScaledSign()), Full())),
        ((aa(0.0, TOP1), Full()), (ErrorFeedback(TOP1), Full())),
        ((nla(0.06, Dense(), "fresh"), Full()), (nla(0.06), Full())),
        ((aa(0.06, Dense(), "fresh"), Full()), (aa(0.06), Full())),
        ((ErrorFeedback(TopK(1.0)), Full()), (Plain(), Full())),
        ((ErrorFeedback(Dense()), Full()), (Plain(), Full())),
        ((nla(0.5, ScaledSign()), CompressedModel(Dense())), (nla(0.5, ScaledSign()), Full())),
        ((aa(0.5, ScaledSign()), CompressedModel(Dense(), "aa")), (aa(0.5, ScaledSign()), Full())),
        ((ErrorFeedback(TOP1), Difference(TopK(1.0))), (ErrorFeedback(TOP1), Full())),
        (
            (ErrorFeedback(TOP1), Difference(TOP1, reference="shared")),
            (ErrorFeedback(TOP1), Difference(TOP1)),
        ),
    ],
    ids=[
        "NLA off is FedAMS",
        "AA off is FedAMS",
        "NLA off is FedCAMS",
        "AA off is FedCAMS",
        "FedNLACA identity fresh is FedNLAA",
        "FedACA identity fresh is FedAA",
        "FedCAMS k = d is FedAMS",
        "FedCAMS identity is FedAMS",
        "FedBNLACA identity downlink is FedNLACA",
        "FedBACA identity downlink is FedACA",
        "difference with k = d is the full downlink",
        "shared is per client when all take part",
    ],
)
def test_equivalence(left, right):
    """Section 13, bit for bit."""
    one, other = Federation(*left).run(6), Federation(*right).run(6)
    assert one.theta.tobytes() == other.theta.tobytes()


def test_ef21_with_the_identity_is_fedams_up_to_rounding():
    np.testing.assert_allclose(
        Federation(EF21(Dense())).run(6).theta, Federation(Plain()).run(6).theta, rtol=1e-14
    )


def test_identity_with_the_judged_memory_is_fednlaa_only_until_something_fires():
    """O9: afterwards the memory is not empty."""
    judged, lazy = Federation(nla(0.06, Dense())), Federation(nla(0.06))
    judged.run(2), lazy.run(2)
    assert judged.theta.tobytes() == lazy.theta.tobytes() and judged.fired() == lazy.fired() != set()
    assert judged.sender[0].memory.any()
    assert judged.run(1).theta.tobytes() != lazy.run(1).theta.tobytes()


def test_with_a_huge_threshold_nla_repeats_its_first_update_for_ever():
    """The negative test of section 13: displacement t times the first, no convergence."""
    link = Lazy("nla", 1e9, max_staleness=10**9)
    run = Federation(link, server=Average(), lr=0.25)
    first = 0.25 * run.centers.mean(0)
    np.testing.assert_allclose(run.run(50).theta, 50 * first, rtol=1e-12)


# ---------------------------------------------------------------- a scalar quadratic


def decay(link, a, rounds):
    """e_0 = 1, update -a e, e += what the server uses. The errors, frames and phantoms."""
    sender, receiver = link.init(1, FLOAT64), link.init(1, FLOAT64)
    errors, frames = [1.0], []
    for t in range(1, rounds + 1):
        frame, sender = link.send(np.array([-a * errors[-1]]), sender, Context(t), RNG)
        used, receiver = link.receive(frame, receiver, 1)
        errors.append(errors[-1] + float(used[0]))
        frames.append(frame)
    return errors, frames


def test_the_held_rule_uses_only_what_was_sent():
    """O20: 21 messages in 50 rounds."""
    errors, frames = decay(Lazy("nla", 0.1, None), 0.05, 50)
    assert sum(not describe(frame, 1).skipped for frame in frames) == 21
    assert errors[-1] == pytest.approx(0.0690496594, abs=1e-10)
    assert not any(describe(frame, 1).phantom for frame in frames)


def test_the_raw_rule_lives_on_values_that_were_never_sent():
    """O20: one message, 48 phantom rounds; the receiver's bytes alone cannot reproduce it."""
    link = Lazy("nla", 0.1, None, reference="raw")
    _, frames = decay(link, 0.05, 50)
    assert sum(not describe(frame, 1).skipped for frame in frames) == 1
    assert sum(describe(frame, 1).phantom for frame in frames) == 48
    receiver = link.init(1, FLOAT64)
    for frame in frames[:2]:
        _, receiver = link.receive(bytes(frame), receiver, 1)
    with pytest.raises(ResyncError):
        link.receive(bytes(frames[2]), receiver, 1)


@pytest.mark.parametrize(
    "a, contraction",
    [(0.05, 0.8941), (0.1, 0.7702), (0.2, 0.4472), (0.3, 0.5477), (0.5, 0.7071), (0.9, 0.9487)],
)
def test_aa_that_always_fires_has_the_closed_forms_rate(a, contraction):
    """O21: e_{t+1} = (1-a) e_t - a e_{t-1}; the larger root of z^2 - (1-a) z + a."""
    errors, _ = decay(Lazy("aa", 1e9, None), a, 30)
    for before, now, after in zip(errors[1:], errors[2:], errors[3:], strict=False):
        assert after == pytest.approx((1 - a) * now - a * before, abs=1e-15)
    assert max(abs(np.roots([1, -(1 - a), a]))) == pytest.approx(contraction, abs=1e-4)


@pytest.mark.parametrize("tau, skips", [(0, 0), (0.1, 243), (0.3, 338), (0.5, 362), (0.9, 378), (1.5, 386)])
def test_how_often_nla_skips_on_the_way_down(tau, skips):
    """O22: 400 rounds with a = .05; it converges for tau < 1 and stalls at 1.5."""
    errors, frames = decay(Lazy("nla", tau, max_staleness=10**6), 0.05, 400)
    assert sum(describe(frame, 1).skipped for frame in frames) == pytest.approx(skips, abs=2)
    assert abs(errors[-1]) < 2e-9 if tau < 1 else abs(errors[-1]) == pytest.approx(2.0e-4, abs=1e-5)


# ---------------------------------------------------------------- a frozen model


def distances(down, x, contacts):
    """||received - x||^2 / ||x||^2 at every contact."""
    state, held, found = down.init(x, 1), None, []
    for t in range(contacts):
        state = down.publish(x, t, state, RNG)
        frame, state = down.send(0, x, t, state, RNG)
        model, held = down.receive(frame, held, x.size)
        found.append(float(np.square(model - x).sum() / np.square(x).sum()))
    return found


@pytest.mark.parametrize("ratio, mean", [(8, 4.05), (128, 79.2)])
def test_a_compressed_model_is_worse_than_zeros(ratio, mean):
    """A9, finding 3: a Gaussian model, top-k with memory of the model itself.

    Without memory the loss is the share of ||x||^2 within z, P(|x| > z) = r: 1 - r - 2 z phi(z).
    """
    x = np.random.default_rng(11).normal(size=4096)
    codec = TopK(1 / ratio)
    literal = distances(CompressedModel(codec, first="zero"), x, 8 * ratio)
    assert np.mean(literal[4 * ratio :]) == pytest.approx(mean, rel=0.1)
    z = NormalDist().inv_cdf(1 - 0.5 / ratio)
    assert literal[0] == pytest.approx(1 - 1 / ratio - 2 * z * NormalDist().pdf(z), abs=0.02)
    assert distances(Difference(codec), x, 2) == [0, 0]


# ---------------------------------------------------------------- invariants

JUDGED = [
    ErrorFeedback(TopK(0.25)),
    ErrorFeedback(ScaledSign()),
    ErrorFeedback(Quantize(3, stochastic=False)),
    ErrorFeedback(Dense("fp16")),
    nla(0.6, Dense()),
    nla(0.9, ScaledSign()),
    nla(0.9, Quantize(4, stochastic=False)),
    aa(0.5, Dense()),
    aa(0.5, ScaledSign()),
    aa(0.9, TopK(0.5, "bf16")),
]
UPS = [*JUDGED, Plain(Quantize(4)), EF21(TopK(0.25)), Lazy("nla", 0.5, link=EF21(TopK(0.25))), aa(0.4)]
DOWNS = [
    Full(),
    Difference(TopK(0.25), tau=0.02),
    Difference(ScaledSign()),
    Difference(TopK(0.25), reference="shared", ring=2),
    CompressedModel(ScaledSign(), "nla", 0.3),
]
CENTERS = tuple(map(tuple, np.random.default_rng(7).normal(size=(4, 8)) + 1))


def partial_rounds(run, rounds, check):
    """Two or three of four clients take part; `check` is called after every round with those absent."""
    rng = np.random.default_rng(1)
    for _ in range(rounds):
        members = sorted(rng.choice(4, rng.integers(2, 4), replace=False).tolist())
        before = dict(run.sender), dict(run.held)
        run.round(members)
        check(before, set(range(4)) - set(members))


@pytest.mark.parametrize("up", JUDGED, ids=str)
def test_what_was_used_and_what_is_remembered_add_up_to_what_was_given(up):
    """O16 a, after every round: sum(judged) + e = sum(Delta)."""
    run = Federation(up, Difference(TopK(0.25)), centers=CENTERS)

    def check(before, absent):
        for i in run.given:
            memory = run.sender[i].e if hasattr(run.sender[i], "e") else run.sender[i].memory
            np.testing.assert_allclose(run.used[i] + memory, run.given[i], atol=1e-12)

    partial_rounds(run, 12, check)


@pytest.mark.parametrize("up", UPS, ids=str)
@pytest.mark.parametrize("down", DOWNS, ids=str)
def test_both_ends_hold_the_same_and_the_absent_are_left_alone(up, down):
    """O16 b and f, after every round."""
    run = Federation(up, down, centers=CENTERS)

    def check(before, absent):
        for i in run.sender:
            for name in ("version", "held", "g"):
                mine, theirs = getattr(run.sender[i], name, None), getattr(run.receiver[i], name, None)
                assert np.array_equal(mine, theirs), f"client {i}: {name}"
        for i, held in run.held.items():
            if isinstance(down, Difference) and down.reference == "per_client":
                assert run.state.clients[i].model.tobytes() == held.model.tobytes()
                assert run.state.clients[i].version == held.version
        senders, models = before
        assert all(run.sender[i] is senders[i] and run.held.get(i) is models.get(i) for i in absent)

    partial_rounds(run, 8, check)


@pytest.mark.parametrize("up", UPS, ids=str)
@pytest.mark.parametrize("down", DOWNS, ids=str)
def test_the_received_bytes_alone_reproduce_the_model(up, down):
    """O16 c and d: replay without the senders, up and down; and every byte is accounted for."""
    run = Federation(up, down, centers=CENTERS)
    partial_rounds(run, 8, lambda before, absent: None)
    theta, server = np.zeros(8), AMSGrad()
    receiver = {i: up.init(8, FLOAT64) for i in range(4)}
    for t in range(run.t):
        used = []
        for _, i, _, frame in (entry for entry in run.log if entry[0] == t):
            value, receiver[i] = up.receive(bytes(frame), receiver[i], 8)
            used.append(value)
            info = describe(frame, 8)
            assert info.header_bytes + info.payload_bytes == len(frame) and not isinstance(frame, Phantom)
        theta = server.step(theta, sum(used[1:], 0.0 + used[0]) / len(used))
    assert theta.tobytes() == run.theta.tobytes()
    held = {}
    for (_, i, frame, _), start in zip(run.log, run.starts, strict=True):
        model, held[i] = down.receive(bytes(frame), held.get(i), 8)
        assert model.tobytes() == start.tobytes()


def test_lazy_links_of_these_runs_do_skip():
    """Without this the invariants above might hold for want of anything to reuse."""
    run = Federation(nla(0.6, Dense()), centers=CENTERS).run(12)
    assert 5 < len(run.fired()) < 40
    lazy = Federation(Lazy("nla", 0.5, link=EF21(TopK(0.25))), centers=CENTERS).run(12)
    assert 5 < len(lazy.fired()) < 40
